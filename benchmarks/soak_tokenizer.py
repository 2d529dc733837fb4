"""The cost of tokenizers on adversarial texts from 1 KB to 4 MB, and how far it is from a line.

    python benchmarks/soak_tokenizer.py [--kinds char,wordpiece,...] [--texts digits]

`make soak` runs it. For each kind and text a line (a fixed cost and a cost per byte) is fitted to
the processor time; the figure is the largest time over the line, for texts of 64 KB and more.
Freed memory is kept: otherwise the kernel zeroes fresh pages for the largest texts only, which
bends the line by up to 1.5 (it is a cost per byte, too, but not of the tokenizer).
Prints one table; exit code 1 above 1.2. Best on a quiet machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ["RAYON_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from tests.hostile import adversarial, examples

from tianci.errors import UserError
from tianci.text import long_words
from tianci.text.tokenizer import Tokenizer
from tianci.train.memory import keep_freed_memory

LIMIT = 1.2
REPEATS = 5
ENOUGH = 0.2  # seconds of measuring: some clocks of processor time go in steps of 10 ms
COUNTED = 64_000  # bytes from which the time of the text outweighs that of the call


def measure(tokenizer: Tokenizer, name: str, sizes: list[int]) -> tuple[float, float]:
    """(largest time over the fitted line, nanoseconds per byte), of the sizes that are read."""
    times = []
    asked = len(sizes)
    sizes = [size for size in sizes if accepted(tokenizer, adversarial.text(name, size))]
    if len(sizes) < asked:  # refused above a limit: measured close below it
        most = (long_words.LONGEST - 1) * len(adversarial.PIECES[name].encode())
        sizes.append(most // len(adversarial.PIECES[name]))
    for size in sizes:
        text = adversarial.text(name, size)
        taken = []
        for _ in range(REPEATS):
            begun, calls = time.process_time(), 0
            while calls == 0 or time.process_time() - begun < ENOUGH:
                tokenizer.ids([text])
                calls += 1
            taken.append((time.process_time() - begun) / calls)
        times.append(min(taken))  # whatever else runs can only add
    x, y = np.array(sizes, float), np.array(times)
    # relative errors count, so that the largest text does not decide alone
    weight = 1 / np.maximum(y, 1e-5)
    columns = np.stack([np.ones_like(x), x], 1) * weight[:, None]
    (fixed, slope), *_ = np.linalg.lstsq(columns, y * weight, rcond=None)
    line = np.maximum(fixed + slope * x, 1e-9)
    counted = x >= COUNTED
    return float((y / line)[counted].max()), float(slope * 1e9)


def accepted(tokenizer: Tokenizer, text: str) -> bool:
    """Whether a text is read; a refusal has to come at once."""
    begun = time.process_time()
    try:
        tokenizer.ids([text])
    except UserError:
        assert time.process_time() - begun < 0.1, "a refusal took longer than 0.1 s"
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kinds", default=",".join(examples.KINDS))
    parser.add_argument("--texts", default="", help="those whose name has this in it")
    parser.add_argument("--largest", type=int, default=4_000_000)
    asked = parser.parse_args()
    sizes = [1000 * 4**n for n in range(7) if 1000 * 4**n < asked.largest] + [asked.largest]
    keep_freed_memory()
    print(f"{'kind':<12}{'text':<32}{'over the line':>14}{'ns per byte':>13}")
    bad = 0
    for kind in asked.kinds.split(","):
        with tempfile.TemporaryDirectory() as folder:
            examples.tokenizer(kind)(Path(folder))
            tokenizer = Tokenizer.load(folder)
        for name in (name for name in adversarial.PIECES if asked.texts in name):
            over, each = measure(tokenizer, name, sizes)
            if over > LIMIT:  # once more: a machine is rarely quiet
                over, each = min((over, each), measure(tokenizer, name, sizes))
            bad += over > LIMIT
            mark = "  above the limit" if over > LIMIT else ""
            print(f"{kind:<12}{name:<32}{over:>14.2f}{each:>13.0f}{mark}", flush=True)
    print(f"{bad} above {LIMIT}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
