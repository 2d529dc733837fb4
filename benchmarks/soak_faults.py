"""Kills, signals and rival writers for long; the short versions are in tests/faults.

    python benchmarks/soak_faults.py [--only kills|points|bits|processes|signals|ranks|writers]
                                     [--share 0.1] [--seed N]

`make soak` runs it. Commands are forks of one process, on models of a few thousand weights, so what
is tried is the order of writing, not the size. Prints one table; exit code 1 where a line fails.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))  # tests/ has the small runs

from arena import machine  # noqa: E402
from tests.faults import test_processes, test_resume, test_signals, test_two_writers  # noqa: E402
from tests.faults.children import Children  # noqa: E402
from tests.faults.runs import KINDS, Runs, assert_same  # noqa: E402
from tests.faults.test_kills import kill_often  # noqa: E402
from tests.matrix.families import Place  # noqa: E402

Line = tuple[str, str, str]  # what, measured, wanted


class Soak:
    """Where it happens, how much of it, and the dice."""

    def __init__(self, folder: Path, share: float, seed: int):
        self.folder, self.share, self.dice = folder, share, random.Random(seed)
        (folder / "place").mkdir()
        (folder / "said").mkdir()
        self.runs, self.children = Runs(Place(folder / "place")), Children(folder / "said")
        self.runs.prepare()
        self.runs.warm(self.children)

    def count(self, of: int) -> int:
        return max(1, round(of * self.share))

    def place(self, name: str) -> Path:
        (self.folder / name).mkdir()
        return self.folder / name

    def kills(self) -> Line:
        """Random times and random points, half and half; also in fine-tuning."""
        wanted, done = self.count(500), 0
        for kind, part in (("masked+next_sentence", 0.6), ("causal", 0.2), ("span", 0.2)):
            kills = max(1, round(wanted * part))
            kill_often(
                self.runs, self.children, kind, self.place(f"kills-{kind}"), kills, self.dice
            )
            done += kills
        return (f"{done} SIGKILLs in pre-training, half of them aimed at the save",
                "0 unrecoverable, 0 finished checkpoints lost, equal at the end",
                "the same")  # fmt: skip

    def points(self) -> Line:
        """Every file operation of a pre-training and of a fine-tuning with adapters."""
        done = 0
        more = ("--strategy", "adapters", "--adapter-size", "4")
        for kind, extra in (("masked+next_sentence", ()), ("classify", more)):
            place = self.place(f"points-{kind}")
            whole = place / "whole"
            _, counted = self.children.run(*self.runs.command(kind, whole, *extra),
                                           die_at=10**9, below=whole, count=True)  # fmt: skip
            every = int(counted.said.rpartition("points: ")[2])
            for at in range(1, every + 1, max(1, round(1 / self.share))):
                out = place / str(at)
                command = self.runs.command(kind, out, *extra)
                code, _ = self.children.run(*command, die_at=at, below=out)
                assert code == -signal.SIGKILL, f"{kind}, point {at}: {code}"
                code, child = self.children.run(*command)
                if code:
                    assert "is finished" in child.said, f"{kind}, point {at}: {child.said}"
                else:
                    assert_same(out, whole)
                done += 1
        return (f"killed before each of {done} file operations of whole runs",
                "all go on to the same bits", "the same")  # fmt: skip

    def bits(self) -> Line:
        """Random points in every kind of run, with one and with two processes."""
        one = two = 0
        for kind in KINDS:
            place = self.place(f"bits-{kind}")
            for number in range(self.count(20) + self.count(4)):
                processes = 1 if number < self.count(20) else 2
                test_resume.killed_and_resumed(
                    self.runs, self.children, kind, place, self.dice, processes
                )
                one, two = one + (processes == 1), two + (processes == 2)
        return (f"{len(KINDS)} kinds of runs, {one} kill points alone, {two} with two processes",
                "weights, moments, log and scores equal bit for bit", "the same")  # fmt: skip

    def processes(self) -> Line:
        worst = 0.0
        for number in range(self.count(10)):
            place = self.place(f"processes-{number}")
            worst = max(
                worst, test_processes.two_then_one_then_two(self.runs, self.children, place)
            )
        return (f"2 -> 1 -> 2 processes, {self.count(10)} times",
                f"same order of samples, losses differ by {worst:.1e}", "within 1e-5")  # fmt: skip

    def signals(self) -> Line:
        took: list[float] = []
        for kind in test_signals.LONG:
            took += test_signals.stop_often(
                self.runs, self.children, kind, self.place(f"signals-{kind}"), self.count(50),
                self.dice,
            )  # fmt: skip
        assert max(took) < 10
        return (f"{len(took)} SIGTERM and SIGINT", f"all saved and ended, the slowest in "
                f"{max(took):.2f} s", "within 10 s")  # fmt: skip

    def ranks(self) -> Line:
        out, took = self.place("ranks") / "run", list[float]()
        for number in range(self.count(40)):
            took.append(
                test_processes.kill_one(self.runs, self.children, out, number % 2, self.dice)
            )
        assert max(took) < 60
        return (f"{len(took)} times one of two processes killed",
                f"the other ended, the slowest in {max(took):.2f} s", "within 60 s")  # fmt: skip

    def writers(self) -> Line:
        for number in range(self.count(20)):
            for kind in ("masked+next_sentence", "classify"):
                place = self.place(f"writers-{number}-{kind}")
                test_two_writers.one_run_of_eight(self.runs, self.children, place, kind)
            for command in ("vocab", "prepare"):
                place = self.place(f"writers-{number}-{command}")
                test_two_writers.one_text_of_eight(self.runs, self.children, place, command)
        return (f"8 rivals for a directory, {4 * self.count(20)} times",
                "one winner, seven ended with 2 and said who writes", "the same")  # fmt: skip


def main() -> None:
    names = ("kills", "points", "bits", "processes", "signals", "ranks", "writers")
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", choices=names)
    options.add_argument("--share", type=float, default=1.0, help="of the usual numbers")
    options.add_argument("--seed", type=int, default=None)
    chosen = options.parse_args()
    seed = chosen.seed if chosen.seed is not None else random.SystemRandom().randrange(10**6)
    rows, failed = [], False
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder), chosen.share, seed)
        for name in (chosen.only,) if chosen.only else names:
            work: Callable[[], Line] = getattr(soak, name)
            began = time.monotonic()
            try:
                what, measured, wanted = work()
            except Exception as error:
                traceback.print_exc()
                what, measured, wanted = name, f"{type(error).__name__}: see above", "no failure"
                failed = True
            rows.append(f"| {what} | {measured} | {wanted} | {time.monotonic() - began:.0f} s |")
            print(rows[-1], file=sys.stderr, flush=True)
        soak.children.close()
    print(f"\n### Kills, signals and rival writers, seed {seed}, {machine()}\n")
    print("| what | measured | wanted | took |\n|---|---|---|---|\n" + "\n".join(rows))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
