"""How fast text becomes training data, beside the tokenizer engine alone and two usual recipes.

    python benchmarks/prepare.py [--megabytes 24] [--rounds 3]

All contestants get the same tokenizer and text (../shared/data) and take turns in one run:

- **engine**: `tokenizers` alone, `encode_batch_fast` on all cores, sentences already in memory, the
  ids not even looked at. Whoever sends each sentence through this engine cannot be faster.
- **tianci prepare**: the whole command in a process of its own: start of the interpreter, reading
  the file (twice if it has more than 64 MB), finding duplicates and faults, encoding, writing with
  fsync, statistics.
- **group_texts**: the recipe of the transformers examples, written plainly: tokenizer(batch of
  1,000 lines) on all cores, concatenate, cut into blocks of 512, save as an array.
- **create_pretraining_data**: the procedure of google-research/bert, written plainly: one process,
  its own tokenizer in Python, ten differently masked copies with next-sentence pairs, flat arrays
  written (the original writes protocol buffers, which takes longer). It runs on a part of the text.
- **the same, fast engine**: the same procedure, tokens of each line by the engine.

The procedure does more than we do (masks and pairs, ten times): we leave that to training, where it
is new in every epoch. What is compared is the time from text until training can start, per byte of
raw text (counted once, although the procedure goes over it ten times). Ours, the engine and
group_texts use all cores; create_pretraining_data uses one, as the original does.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import unicodedata
from array import array
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tokenizers
from arena import read_options

from tianci.data.corpus import Corpus
from tianci.text.learn import Vocabulary, learn
from tianci.text.tokenizer import Tokenizer

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
CONTESTANTS = (
    "engine",
    "tianci prepare",
    "group_texts",
    "create_pretraining_data",
    "the same, fast engine",
)
VOCABULARIES = {
    "zh": Vocabulary(kind="char", size=8000),
    "en": Vocabulary(kind="wordpiece", size=16000),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=float, default=24, help="of each language")
    parser.add_argument(
        "--classic", type=float, default=1, help="megabytes for the classic procedure"
    )
    parser.add_argument("--rounds", type=int, default=3)
    options = read_options(parser, rounds=1, megabytes=2.0)
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores, {options.rounds} rounds, median (lowest to highest)\n")
    print("| text | contestant | MB/s | against the engine | tianci is | bytes per byte of text |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        for language in VOCABULARIES:
            folder = Path(name) / language
            folder.mkdir()
            compare(language, folder, options)
        memory = peak_memory(Path(name) / "zh")
    print(f"\nPeak memory of tianci prepare, all processes together: {memory:.0f} MB")


def compare(language: str, folder: Path, options: argparse.Namespace) -> None:
    text = folder / "text.txt"
    text.write_bytes(beginning(language, options.megabytes))
    small = folder / "small.txt"
    small.write_bytes(beginning(language, options.classic))
    learn([text], VOCABULARIES[language])[0].save(_made(folder / "vocabulary"))
    runs: dict[str, Callable[[], None]] = {
        "engine": engine_alone(folder),
        "tianci prepare": lambda: tianci_prepare(folder),
        "group_texts": lambda: group_texts(folder),
        "create_pretraining_data": lambda: create_pretraining_data(folder, own=True),
        "the same, fast engine": lambda: create_pretraining_data(folder, own=False),
    }
    sizes = {name: (small if name in CONTESTANTS[3:] else text).stat().st_size for name in runs}
    speeds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(options.rounds):
        order = list(runs)[number % len(runs) :] + list(runs)[: number % len(runs)]
        for name in order:
            started = time.perf_counter()
            runs[name]()
            speeds[name].append(sizes[name] / 1e6 / (time.perf_counter() - started))
    check(folder)
    middle = {name: statistics.median(values) for name, values in speeds.items()}
    outputs = ("", "store", "blocks.npy", "examples.bin", "examples.bin")
    written = {
        name: _bytes(folder / output) / sizes[name] if output else 0.0
        for name, output in zip(CONTESTANTS, outputs, strict=True)
    }
    for name in CONTESTANTS:
        low, high = min(speeds[name]), max(speeds[name])
        print(
            f"| {language} | {name} | {middle[name]:.3g} ({low:.3g} to {high:.3g}) "
            f"| {middle[name] / middle['engine']:.1%} "
            f"| {middle['tianci prepare'] / middle[name]:.1f} times as fast "
            f"| {written[name]:.2f} |",
            flush=True,
        )


def beginning(language: str, megabytes: float) -> bytes:
    """The first documents of a wiki, whole."""
    with gzip.open(DATA / f"wiki_{language}" / "train.txt.gz") as file:
        data = file.read(int(megabytes * 1e6))
    return data[: data.rindex(b"\n\n") + 2]


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _bytes(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def engine_alone(folder: Path) -> Callable[[], None]:
    engine = Tokenizer.load(folder / "vocabulary").engine
    lines = [line for line in (folder / "text.txt").read_text("utf-8").split("\n") if line]

    def run() -> None:
        for start in range(0, len(lines), 10_000):
            engine.encode_batch_fast(lines[start : start + 10_000], add_special_tokens=False)

    return run


def tianci_command(folder: Path) -> list[str]:
    subprocess.run(["rm", "-rf", str(folder / "store")], check=True)
    paths = [str(folder / "text.txt"), "--tokenizer", str(folder / "vocabulary")]
    return [sys.executable, "-m", "tianci", "prepare", *paths, "--out", str(folder / "store"), "-q"]


def tianci_prepare(folder: Path) -> None:
    # what was compiled once is kept, as after an installation, whatever this shell says
    kept = {name: v for name, v in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(tianci_command(folder), check=True, stdout=subprocess.DEVNULL, env=kept)


def check(folder: Path) -> None:
    """Ours must be the ids of the engine, all of them."""
    corpus = Corpus(folder / "store")
    engine = corpus.tokenizer().engine
    lines = [line for line in (folder / "text.txt").read_text("utf-8").split("\n") if line]
    total = 0
    for start in range(0, len(lines), 10_000):
        batch = engine.encode_batch_fast(lines[start : start + 10_000], add_special_tokens=False)
        total += sum(sum(encoding.ids) for encoding in batch)
    ours = sum(int(s.tokens.sum(dtype=np.int64)) for p in corpus.splits.values() for s in p.shards)
    assert ours == total, "tianci and the engine do not agree"


def group_texts(folder: Path, block: int = 512) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder / "vocabulary")
    blocks: list[list[int]] = []
    rest: list[int] = []
    with (folder / "text.txt").open(encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file if line.strip()]
    for start in range(0, len(lines), 1000):
        found = tokenizer(lines[start : start + 1000], return_special_tokens_mask=True)
        joined = {key: _chain(rows) for key, rows in found.items()}
        ids = rest + joined["input_ids"]
        whole = len(ids) // block * block
        blocks += [ids[at : at + block] for at in range(0, whole, block)]
        rest = ids[whole:]
    np.save(folder / "blocks.npy", np.array(blocks, np.int32))


def _chain(rows: list[list[int]]) -> list[int]:
    return [value for row in rows for value in row]


def create_pretraining_data(folder: Path, own: bool, dupes: int = 10, longest: int = 128) -> None:
    """google-research/bert, create_pretraining_data.py, with its names and defaults."""
    engine = Tokenizer.load(folder / "vocabulary").engine
    ids = engine.get_vocab()
    words = list(ids)
    cut = OwnTokenizer(ids).tokenize if own else engine_tokens(engine)
    rng = random.Random(12345)
    documents: list[list[list[str]]] = [[]]
    with (folder / "small.txt").open(encoding="utf-8") as file:
        for line in file:
            if not (line := line.strip()):
                documents.append([])
            elif tokens := cut(line):
                documents[-1].append(tokens)
    documents = [document for document in documents if document]
    rng.shuffle(documents)
    instances = []
    for _ in range(dupes):
        for index in range(len(documents)):
            instances += from_document(documents, index, longest, words, rng)
    rng.shuffle(instances)
    with (folder / "examples.bin").open("wb") as out:
        for tokens, segments, places, labels, random_next in instances:
            row = [ids[token] for token in tokens]
            gap = longest - len(row)
            few = 20 - len(places)
            out.write(array("i", row + [0] * gap).tobytes())
            out.write(array("i", [1] * len(row) + [0] * gap).tobytes())
            out.write(array("i", segments + [0] * gap).tobytes())
            out.write(array("i", places + [0] * few).tobytes())
            out.write(array("i", [ids[label] for label in labels] + [0] * few).tobytes())
            out.write(array("f", [1.0] * len(places) + [0.0] * few).tobytes())
            out.write(array("i", [random_next]).tobytes())


def engine_tokens(engine: tokenizers.Tokenizer) -> Callable[[str], list[str]]:
    return lambda line: list(engine.encode(line, add_special_tokens=False).tokens)


class OwnTokenizer:
    """google-research/bert, tokenization.py: basic splitting, then greedy longest match."""

    def __init__(self, vocabulary: dict[str, int]):
        self.vocabulary = vocabulary

    def tokenize(self, text: str) -> list[str]:
        return [piece for word in self.words(text) for piece in self.pieces(word)]

    def words(self, text: str) -> list[str]:
        output = []
        for character in text:
            code = ord(character)
            category = unicodedata.category(character)
            if code in (0, 0xFFFD) or (category.startswith("C") and character not in "\t\n\r"):
                continue
            output.append(" " if character in " \t\n\r" or category == "Zs" else character)
        apart = [f" {c} " if self.is_chinese(ord(c)) else c for c in output]
        words = []
        for word in "".join(apart).split():
            plain = unicodedata.normalize("NFD", word.lower())
            plain = "".join(c for c in plain if unicodedata.category(c) != "Mn")
            words += self.at_punctuation(plain)
        return " ".join(words).split()

    def is_chinese(self, code: int) -> bool:
        return (
            0x4E00 <= code <= 0x9FFF
            or 0x3400 <= code <= 0x4DBF
            or 0x20000 <= code <= 0x2A6DF
            or 0x2A700 <= code <= 0x2B73F
            or 0x2B740 <= code <= 0x2B81F
            or 0x2B820 <= code <= 0x2CEAF
            or 0xF900 <= code <= 0xFAFF
            or 0x2F800 <= code <= 0x2FA1F
        )

    def at_punctuation(self, word: str) -> list[str]:
        output: list[list[str]] = []
        new = True
        for character in word:
            code = ord(character)
            ascii_sign = (
                33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
            )
            if ascii_sign or unicodedata.category(character).startswith("P"):
                output.append([character])
                new = True
            else:
                if new:
                    output.append([])
                new = False
                output[-1].append(character)
        return ["".join(part) for part in output]

    def pieces(self, word: str) -> list[str]:
        if len(word) > 200:
            return ["[UNK]"]
        found = []
        start = 0
        while start < len(word):
            end = len(word)
            while start < end:
                piece = ("##" if start else "") + word[start:end]
                if piece in self.vocabulary:
                    break
                end -= 1
            else:
                return ["[UNK]"]
            found.append(piece)
            start = end
        return found


Instance = tuple[list[str], list[int], list[int], list[str], bool]


def from_document(
    documents: list[list[list[str]]], index: int, longest: int, words: list[str], rng: random.Random
) -> list[Instance]:
    document = documents[index]
    most = longest - 3
    target = rng.randint(2, most) if rng.random() < 0.1 else most
    instances: list[Instance] = []
    chunk: list[list[str]] = []
    length = at = 0
    while at < len(document):
        chunk.append(document[at])
        length += len(document[at])
        if at == len(document) - 1 or length >= target:
            end = rng.randint(1, len(chunk) - 1) if len(chunk) >= 2 else 1
            first = [token for sentence in chunk[:end] for token in sentence]
            second: list[str] = []
            random_next = len(chunk) == 1 or rng.random() < 0.5
            if random_next:
                other = index
                for _ in range(10):
                    other = rng.randint(0, len(documents) - 1)
                    if other != index:
                        break
                start = rng.randint(0, len(documents[other]) - 1)
                for sentence in documents[other][start:]:
                    second.extend(sentence)
                    if len(second) >= target - len(first):
                        break
                at -= len(chunk) - end
            else:
                second = [token for sentence in chunk[end:] for token in sentence]
            while len(first) + len(second) > most:
                longer = first if len(first) > len(second) else second
                if rng.random() < 0.5:
                    del longer[0]
                else:
                    longer.pop()
            tokens = ["[CLS]", *first, "[SEP]", *second, "[SEP]"]
            segments = [0] * (len(first) + 2) + [1] * (len(second) + 1)
            instances.append((*masked(tokens, segments, words, rng), random_next))
            chunk, length = [], 0
        at += 1
    return instances


def masked(
    tokens: list[str], segments: list[int], words: list[str], rng: random.Random
) -> tuple[list[str], list[int], list[int], list[str]]:
    candidates = [at for at, token in enumerate(tokens) if token not in ("[CLS]", "[SEP]")]
    rng.shuffle(candidates)
    count = min(20, max(1, round(len(tokens) * 0.15)))
    places = sorted(candidates[:count])
    labels = [tokens[at] for at in places]
    for at in places:
        if rng.random() < 0.8:
            tokens[at] = "[MASK]"
        elif rng.random() < 0.5:
            tokens[at] = words[rng.randint(0, len(words) - 1)]
    return tokens, segments, places, labels


def peak_memory(folder: Path) -> float:
    """Megabytes resident in all processes of one run, shared pages counted once per process."""
    process = subprocess.Popen(tianci_command(folder), stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(resident(pid) for pid in [process.pid, *children(process.pid)]))
        time.sleep(0.02)
    return peak / 1000


def children(pid: int) -> list[int]:
    try:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def resident(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


if __name__ == "__main__":
    main()
