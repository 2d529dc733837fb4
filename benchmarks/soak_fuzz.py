"""A million wrong files: mutations led by coverage (atheris), everything that reads, in turn.

    python benchmarks/soak_fuzz.py [--cases 1000000] [--minutes 60] [--only NAME] [--seed 0]

`make soak` runs it. Each target runs in a process of its own, so that a crash of a library is a
finding too, not the end. Prints one table; exit code 1 where there is a finding. The short version
is tests/hostile/test_fuzz.py.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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
                os._exit(0)  # libFuzzer never comes back

        if atheris is None:
            dice = random.Random(seed)
            while True:
                one(dice.randbytes(dice.randint(12, 48)))
        options = [sys.argv[0], f"-seed={seed + 1}", "-max_len=64", "-len_control=0",
                   "-verbosity=0", "-rss_limit_mb=0", "-timeout=120", "-handle_int=0"]  # fmt: skip
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        dice = random.Random(seed)
        for start in range(64):
            (corpus / str(start)).write_bytes(dice.randbytes(40))
        atheris.Setup([*options, str(corpus)], one)
        atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cases", type=int, default=1_000_000, help="in all")
    parser.add_argument("--minutes", type=float, default=60, help="at most, in all")
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
    shares = sum(target.share for _, target in chosen)
    print(f"seed {asked.seed}; at most {asked.minutes:g} minutes")
    print(f"{'target':<28}{'cases':>10}{'a second':>10}{'findings':>10}")
    total = bad = 0
    for number, target in chosen:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "report.json"
            part = target.share / shares
            begun = time.monotonic()
            done = subprocess.run(
                [sys.executable, __file__, "--target", str(number), "--out", str(out),
                 "--cases", str(-(-int(asked.cases * part) // 1)), "--seed", str(asked.seed),
                 "--minutes", str(asked.minutes * part)],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
            try:
                report = json.loads(out.read_text())
            except (OSError, ValueError):
                report = {"cases": 0, "findings": []}
            if done.returncode != 0:
                tail = done.stderr.decode("utf-8", "replace").strip()[-300:]
                report["findings"].append([f"the process ended with {done.returncode}: {tail}", ""])
        seconds = time.monotonic() - begun
        total, bad = total + report["cases"], bad + len(report["findings"])
        rate = report["cases"] / seconds
        count = len(report["findings"])
        print(f"{target.name:<28}{report['cases']:>10,}{rate:>10,.0f}{count:>10}", flush=True)
        for text, data in report["findings"][:SHOWN]:
            print(f"    {text[:300]}\n    case {data}", flush=True)
    print(f"{'all':<28}{total:>10,}{'':>10}{bad:>10}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
