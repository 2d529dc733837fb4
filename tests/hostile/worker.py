"""Fuzzing in a process of its own: a library that crashes ends that process, not the tests.

    python -m tests.hostile.worker FOLDER CASES SEED

reads numbers of targets from standard input and answers each with a line of JSON: what is wrong,
or null. Its modules are the same whoever starts it, so that the same seed draws the same cases
(hypothesis takes constants out of whatever is imported). `Worker` is the other end.
"""

from __future__ import annotations

import faulthandler
import json
import os
import select
import subprocess
import sys
import traceback
from pathlib import Path

from tests.hostile.guard import attempt, in_time
from tests.hostile.targets import Target, targets

MOST_SECONDS = 900  # for a target; a library that hangs hears no signal
ENDLESS, CRASH = -1, -2  # no targets: what the guard and the worker itself must see


class Worker:
    """Asks a process; where it has ended, the next question starts another one."""

    def __init__(self, folder: Path, cases: int, seed: int):
        self.folder, self.cases, self.seed = folder, cases, seed
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, number: int) -> str | None:
        """What is wrong with how a target reads its files; None: nothing."""
        (self.folder / "case").unlink(missing_ok=True)
        process = self.process = self.process or self._start()
        assert process.stdin and process.stdout
        process.stdin.write(f"{number}\n".encode())
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], MOST_SECONDS)
        line = process.stdout.readline() if ready else b""
        if line:
            wrong: str | None = json.loads(line)
            return wrong
        code = self.close()
        case = self.folder / "case"
        data = case.read_text() if case.exists() else "none"
        said = (self.folder / "errors").read_text(encoding="utf-8", errors="replace")[-3000:]
        how = f"ended with {code}" if ready else f"did not answer for {MOST_SECONDS} s"
        return f"the process {how} at the case {data}: {said}"

    def close(self) -> int:
        """Ends the process; its exit code."""
        process, self.process = self.process, None
        if process is None:
            return 0
        assert process.stdin and process.stdout
        process.stdin.close()
        process.stdout.close()
        try:
            return process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "errors").open("wb") as errors:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.hostile.worker", str(self.folder),
                 str(self.cases), str(self.seed)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                cwd=Path(__file__).resolve().parents[2],
                env={**os.environ, "OMP_NUM_THREADS": "1", "RUST_BACKTRACE": "0"},
            )  # fmt: skip


def fuzz(target: Target, folder: Path, cases: int, seed: int) -> str | None:
    """Draws the cases of one target; the first finding, made small."""
    import hypothesis
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st

    target.prepare(folder / target.name.replace("/", "-"))
    if target.example() != 0:
        return f"{target.name}: the example itself is not read"
    found: list[str] = []
    note = folder / "case"

    @hypothesis.seed(seed)
    @settings(
        max_examples=cases,
        deadline=None,  # the guard has its own
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.binary(min_size=12, max_size=48))
    def case(data: bytes) -> None:
        note.write_text(data.hex())
        wrong = target.case(data)
        if wrong is not None:
            found.append(f"{target.name}: {wrong} (case {data.hex()})")
            raise AssertionError(wrong[:40])

    try:
        case()
    except AssertionError:
        if not found:
            raise
    except hypothesis.errors.Flaky:
        return f"{found[0]}; not every time"
    return found[-1] if found else None


def endless(folder: Path) -> int:
    """What never ends by itself."""
    with in_time(1):
        while True:
            pass


def main() -> None:
    # what a library prints on its own belongs to the errors, not between the answers
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    faulthandler.enable()
    folder, cases, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    every = targets()
    shares = sum(target.share for target in every)
    for line in sys.stdin:
        number = int(line)
        try:
            if number == CRASH:
                faulthandler._sigsegv()  # type: ignore[attr-defined]
            if number == ENDLESS:
                wrong = attempt(endless, folder)
            else:
                target = every[number]
                wrong = fuzz(target, folder, -(-cases * target.share // shares), seed)
        except BaseException:
            wrong = traceback.format_exc()
        print(json.dumps(wrong), file=answers, flush=True)


if __name__ == "__main__":
    main()
