"""Whether time per token and memory stay flat from 1 MB to 1 GB of text.

    python benchmarks/scaling.py [--language zh] [--gigabyte] [--threads 2]

For each size: `tianci prepare` in a process of its own, then reading batches from its store
(documents in random order, cut, masked, shuffled, packed) in another one. The text is made of
sentences of the wiki in random order, some of them changed (words exchanged with those of another
sentence), so that neither a document nor a line is ever a copy. `--gigabyte` adds 1,000 MB to the
sizes 1, 10 and 100. The start of the interpreter counts, so 1 MB looks slower than it is; the
column without it is there for that reason.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from arena import read_options
from prepare import DATA, VOCABULARIES, children, resident

from tianci.text.learn import learn

READ = 4_000_000  # tokens read from each store


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--language", choices=list(VOCABULARIES), default="zh")
    parser.add_argument("--gigabyte", action="store_true", help="also 1,000 MB (4 GB of disk)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--largest", type=int, default=100, help="leave out larger sizes (MB)")
    parser.add_argument("--read", metavar="STORE", help=argparse.SUPPRESS)
    options = read_options(parser, largest=10)
    if options.read:
        read_batches(options.read)
        return
    most = 1000 if options.gigabyte else options.largest
    print(f"{options.language}, {options.threads} workers")
    print(
        "| MB | tokens | prepare: ns per token | without start | peak MB, all processes "
        "| batches: ns per token | MB of its own |"
    )
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "vocabulary").mkdir()
        write_text(options.language, folder / "text.txt", 10)
        vocabulary = learn([folder / "text.txt"], VOCABULARIES[options.language])[0]
        vocabulary.save(folder / "vocabulary")
        write_text(options.language, folder / "text.txt", 0.02)
        start = prepare(folder, options.threads)[0]
        for size in (1, 10, 100, 1000):
            if size <= most:
                write_text(options.language, folder / "text.txt", size)
                measure(folder, size, start, options.threads)


def write_text(language: str, path: Path, megabytes: float) -> None:
    """Documents of 5 to 25 sentences; a fifth of the sentences get words of another one."""
    with gzip.open(DATA / f"wiki_{language}" / "train.txt.gz", "rt", encoding="utf-8") as file:
        lines = [line for line in file.read(30_000_000).split("\n") if line]
    rng = random.Random(1)
    written = 0
    with path.open("wb") as out:
        while written < megabytes * 1e6:
            sentences = rng.choices(lines, k=rng.randrange(5, 26))
            for at, sentence in enumerate(sentences):
                if rng.random() < 0.2:
                    cut = rng.randrange(len(sentence))
                    sentences[at] = sentence[:cut] + rng.choice(lines)[cut:] + str(written)
            written += out.write(("\n".join(sentences) + "\n\n").encode())


def measure(folder: Path, size: int, start: float, threads: int) -> None:
    seconds, peak = prepare(folder, threads)
    tokens = json.loads((folder / "store" / "corpus.json").read_bytes())["statistics"]["tokens"]
    command = [sys.executable, __file__, "--read", str(folder / "store")]
    batches = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    print(
        f"| {size:,} | {tokens:,} | {seconds / tokens * 1e9:.0f} "
        f"| {(seconds - start) / tokens * 1e9:.0f} | {peak:.0f} "
        f"| {batches['nanoseconds']:.0f} | {batches['megabytes']:.0f} |",
        flush=True,
    )


def prepare(folder: Path, threads: int) -> tuple[float, float]:
    """Seconds and megabytes of the whole command."""
    subprocess.run(["rm", "-rf", str(folder / "store")], check=True)
    command = [sys.executable, "-m", "tianci", "prepare", str(folder / "text.txt")]
    command += ["--tokenizer", str(folder / "vocabulary"), "--out", str(folder / "store"), "-q"]
    command += ["--threads", str(threads)]
    started, peak = time.perf_counter(), 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        peak = max(peak, sum(resident(pid) for pid in [process.pid, *children(process.pid)]))
        time.sleep(0.02)
    if process.returncode:
        raise SystemExit(f"tianci prepare ended with code {process.returncode}")
    return time.perf_counter() - started, peak / 1000


def read_batches(store: str) -> None:
    """Prints the time per token and the memory that is not the mapped store."""
    from tianci.data.corpus import Corpus
    from tianci.data.store import SplitStore
    from tianci.goals.base import Joint
    from tianci.goals.objectives.masked import Masked
    from tianci.train.examples import Examples, Position, Recipe

    corpus = Corpus(store)
    recipe = Recipe(Joint((Masked(),)), 128, 0.1, 4096, seed=1)
    examples = Examples(SplitStore(corpus.split("train")), corpus.tokenizer(), recipe)
    tokens, started = 0, time.perf_counter()
    for pool, numbers, _ in examples.draws(Position()):
        tokens += len(pool.batch(numbers).tokens)
        if tokens >= READ:
            break
    spent = time.perf_counter() - started
    status = Path("/proc/self/status").read_text().splitlines()
    own = next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))
    print(json.dumps({"nanoseconds": spent / tokens * 1e9, "megabytes": own / 1000}))


if __name__ == "__main__":
    main()
