"""How fast a large file becomes token ids: ours against the `tokenizers` library called directly.

    python benchmarks/tokenizer.py [--megabytes 50] [--rounds 5] [--learn]

The file is made of ../shared/data/wiki_zh and wiki_en, or of the text files given. Rounds are
interleaved, so that a busy machine is busy for both; medians are compared.
"""

from __future__ import annotations

import argparse
import gzip
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import date
from importlib.metadata import version
from itertools import islice
from os import cpu_count
from pathlib import Path

import tokenizers
from arena import read_options

from tianci.text.learn import Vocabulary, learn
from tianci.text.source import read_blocks, read_lines
from tianci.text.tokenizer import Tokenizer

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
BATCH = 10_000
SIZE = 16_000


def make_file(path: Path, megabytes: float) -> None:
    """Chinese and English in equal parts."""
    with path.open("wb") as out:
        for name in ("wiki_zh", "wiki_en"):
            left = int(megabytes * 1e6 / 2)
            with gzip.open(DATA / name / "train.txt.gz") as file:
                for line in file:
                    left -= out.write(line)
                    if left < 0:
                        break


def batches(lines: Iterator[str]) -> Iterator[list[str]]:
    while batch := list(islice(lines, BATCH)):
        yield batch


def directly(engine: tokenizers.Tokenizer, path: Path) -> int:
    """What one would write without us."""
    count = 0
    with path.open(encoding="utf-8", newline="\n") as file:
        for batch in batches(line.rstrip("\n") for line in file):
            for encoding in engine.encode_batch_fast(batch):
                count += len(encoding.ids)
    return count


def ours(tokenizer: Tokenizer, path: Path) -> int:
    count = 0
    for batch in batches(line for _, line in read_lines(path)):
        for ids in tokenizer.ids(batch):
            count += len(ids)
    return count


def with_offsets(tokenizer: Tokenizer, path: Path) -> int:
    count = 0
    for batch in batches(line for _, line in read_lines(path)):
        for encoded in tokenizer.encode(batch):
            count += len(encoded)
    return count


def timed(work: Callable[[], int]) -> tuple[float, int]:
    began = time.perf_counter()
    count = work()
    return time.perf_counter() - began, count


def compare(kind: str, path: Path, sample: Path, rounds: int) -> str:
    tokenizer, _ = learn([sample], Vocabulary(kind=kind, size=SIZE))
    engine = tokenizers.Tokenizer.from_str(tokenizer.engine.to_str())
    times: dict[str, list[float]] = {"ours": [], "library": []}
    counts = set()
    for _ in range(rounds):
        for name, work in (
            ("library", lambda: directly(engine, path)),
            ("ours", lambda: ours(tokenizer, path)),
        ):
            seconds, count = timed(work)
            times[name].append(seconds)
            counts.add(count)
    assert len(counts) == 1, counts  # both made the same number of tokens
    offsets, _ = timed(lambda: with_offsets(tokenizer, path))
    fast, slow = statistics.median(times["library"]), statistics.median(times["ours"])
    size = path.stat().st_size / 1e6
    return (
        f"| {kind} | {counts.pop():,} | {fast:.2f} | {slow:.2f} | {slow / fast:.3f} "
        f"| {size / slow:.1f} | {size / offsets:.1f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", default=["char", "bpe", "byte-bpe", "unigram"])
    parser.add_argument("--learn", action="store_true", help="also time learning")
    given = read_options(parser, rounds=1, megabytes=2.0, kinds=["char"])
    print(f"{date.today()}, {platform.machine()}, {cpu_count()} cores,", end=" ")
    print(f"Python {platform.python_version()}, tokenizers {version('tokenizers')}, ", end="")
    print(f"{given.megabytes:g} MB of wiki_zh and wiki_en, {given.rounds} rounds\n")
    with tempfile.TemporaryDirectory() as folder:
        path, sample = Path(folder, "text.txt"), Path(folder, "sample.txt")
        make_file(path, given.megabytes)
        make_file(sample, min(given.megabytes, 6))
        began = time.perf_counter()
        lines = sum(len(block) for block in read_blocks(path))
        speed = given.megabytes / (time.perf_counter() - began)
        print(f"reading alone: {lines:,} lines, {speed:.0f} MB/s\n")
        print("| kind | tokens | library, s | ours, s | ratio | ours, MB/s | with offsets, MB/s |")
        print("|---|---|---|---|---|---|---|")
        for kind in given.kinds:
            print(compare(kind, path, sample, given.rounds), flush=True)
        if given.learn:
            print(f"\n| kind | learning {SIZE:,} entries, s | MB/s |\n|---|---|---|")
            for kind in given.kinds:
                seconds, _ = timed(lambda: len(learn([path], Vocabulary(kind=kind, size=SIZE))[0]))  # noqa: B023
                print(f"| {kind} | {seconds:.1f} | {given.megabytes / seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
