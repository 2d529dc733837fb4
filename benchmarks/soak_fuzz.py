"""A million wrong files: mutations led by coverage (atheris), everything that reads, in turn.

    python benchmarks/soak_fuzz.py [--cases 1000000] [--minutes 60] [--jobs 2] [--only NAME]

`make soak` runs it. Each target runs in a process of its own, so that a crash of a library is a
finding too, not the end. Prints one table; exit code 1 where there is a finding. The short version
is tests/hostile/test_fuzz.py.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))  # tests/hostile has the targets
SHOWN = 5  # findings of a target that are told


def fuzz(number: int, cases: int, seconds: float, seed: int, out: Path) -> None:
    """Runs one target until its cases or its time are used up; writes what it found."""
    import random
    import warnings

    warnings.simplefilter("ignore")
    os.environ["TQDM_DISABLE"] = "1"
    try:
        import atheris
    except ImportError:  # not on this system: drawn without coverage
        atheris = None
    if atheris is not None:
        with atheris.instrument_imports(include=["tianci"], enable_loader_override=False):
            from tests.hostile.targets import targets
    else:
        from tests.hostile.targets import targets
    target = targets()[number]
    report = {"cases": 0, "findings": [], "led": atheris is not None}
    begun, seen = time.monotonic(), set()
    # the last words must survive a library that ends the process
    record = out.open("w", encoding="utf-8")

    def write() -> None:
        record.seek(0)
        record.truncate()
        json.dump(report, record)
        record.flush()

    with tempfile.TemporaryDirectory(prefix="tianci-fuzz-") as folder:
        target.prepare(Path(folder) / "example")

        def one(data: bytes) -> None:
            wrong = target.case(bytes(data))
            report["cases"] += 1
            if wrong and wrong[:60] not in seen:
                seen.add(wrong[:60])
                report["findings"].append([wrong, bytes(data).hex()])
            done = report["cases"] >= cases or time.monotonic() - begun > seconds
            if done or report["cases"] % 500 == 0:
                write()
            if done:
                shutil.rmtree(folder)
                os._exit(0)  # libFuzzer never comes back

        if atheris is None:
            dice = random.Random(seed)
            while True:
                one(dice.randbytes(dice.randint(12, 48)))
        options = [sys.argv[0], f"-seed={seed + 1}", "-max_len=64", "-len_control=0",
                   "-verbosity=0", "-rss_limit_mb=0", "-timeout=120", "-handle_int=0",
                   f"-artifact_prefix={out.parent}/"]  # fmt: skip
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        dice = random.Random(seed)
        for start in range(64):
            (corpus / str(start)).write_bytes(dice.randbytes(40))
        atheris.Setup([*options, str(corpus)], one)
        atheris.Fuzz()


@dataclass
class Share:
    """What one target gets of the cases and of the time, and what came of it."""

    number: int
    name: str
    cases: int
    seconds: float
    seed: int
    report: dict[str, Any] = field(default_factory=dict)
    took: float = 0.0

    def run(self) -> Share:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "report.json"
            begun = time.monotonic()
            done = subprocess.run(
                [sys.executable, __file__, "--target", str(self.number), "--out", str(out),
                 "--cases", str(self.cases), "--seed", str(self.seed),
                 "--minutes", str(self.seconds / 60)],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
            try:
                self.report = json.loads(out.read_text())
            except (OSError, ValueError):
                self.report = {"cases": 0, "findings": []}
            if done.returncode != 0:
                tail = done.stderr.decode("utf-8", "replace").strip()[-300:]
                case = [path.read_bytes().hex() for path in Path(folder).glob("crash-*")]
                said = f"the process ended with {done.returncode}: {tail}"
                self.report["findings"].append([said, "".join(case)])
        self.took = time.monotonic() - begun
        return self

    @property
    def in_time(self) -> bool:
        return bool(self.report["cases"] >= self.cases)

    def tell(self) -> None:
        count, found = self.report["cases"], self.report["findings"]
        rate = count / self.took
        print(f"{self.name:<28}{count:>10,}{rate:>10,.0f}{len(found):>10}", flush=True)
        for text, data in found[:SHOWN]:
            print(f"    {text[:300]}\n    case {data}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cases", type=int, default=1_000_000, help="in all")
    parser.add_argument("--minutes", type=float, default=60, help="at most, in all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets at a time")
    parser.add_argument("--only", default="", help="targets whose name has this in it")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--target", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.target is not None:
        fuzz(asked.target, asked.cases, asked.minutes * 60, asked.seed, asked.out)
        return 0
    from tests.hostile.targets import targets

    chosen = [(n, t) for n, t in enumerate(targets()) if asked.only in t.name]
    print(f"seed {asked.seed}; at most {asked.minutes:g} minutes, {asked.jobs} at a time")
    print(f"{'target':<28}{'cases':>10}{'a second':>10}{'findings':>10}")
    left, end, bad, turn = asked.cases, time.monotonic() + asked.minutes * 60, 0, 0
    # what slow targets cannot do in their time, the others do in the next turn
    while chosen and left > 0 and (room := (end - time.monotonic()) * asked.jobs) > 0:
        whole = sum(target.share for _, target in chosen)
        shares = [
            Share(n, t.name, -(-left * t.share // whole), room * t.share / whole, asked.seed + turn)
            for n, t in chosen
        ]
        with ThreadPoolExecutor(asked.jobs) as threads:
            for share in threads.map(Share.run, shares):
                share.tell()
                bad += len(share.report["findings"])
                left -= share.report["cases"]
        quick = {share.number for share in shares if share.in_time}
        chosen, turn = [(n, t) for n, t in chosen if n in quick], turn + 1
    print(f"{'all':<28}{asked.cases - left:>10,}{'':>10}{bad:>10}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
