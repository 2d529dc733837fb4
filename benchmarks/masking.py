"""How fast tokens become masked batches, beside the collator of transformers.

    python benchmarks/masking.py [--megabytes 8] [--rounds 5] [--seconds 1]

All work on the same wiki text in one thread and take turns in one process; counted are real tokens
(no padding). What a contestant does in its turn:

- **tianci**: all of the way as in training: documents in random order from the token store on disk,
  cut into sequences, special tokens, whole words chosen and hidden, shuffled, packed into batches.
- **transformers, default**: `DataCollatorForLanguageModeling` on rows that are already cut, with
  special tokens, as lists of ids in memory (what a tokenizer gives); 32 rows a batch.
- **transformers, configured**: the same rows with their special-token mask already made, so that it
  need not ask the tokenizer row by row, and numpy instead of torch where that is faster.
- **transformers, whole words**: `whole_word_mask=True`, offsets given: what ours does; rows of
  equal length (128), so that no offsets have to be padded.
- **transformers, tensors**: torch tensors of equal length (128), mask given: nothing to pad.

All but "whole words" hide single tokens; ours hides whole words and also cuts and shuffles.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from arena import read_options
from numpy.typing import NDArray
from transformers import AutoTokenizer, DataCollatorForLanguageModeling

from tianci.data.corpus import Corpus
from tianci.data.prepare import PrepareSettings, prepare
from tianci.data.store import SplitStore
from tianci.goals.base import Joint
from tianci.goals.objectives.masked import Masked
from tianci.text.learn import Vocabulary, learn
from tianci.train.examples import Examples, Position, Recipe
from tianci.train.memory import keep_freed_memory

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
LENGTH, ROWS = 128, 32
VOCABULARIES = {
    "zh": Vocabulary(kind="char", size=8000),
    "en": Vocabulary(kind="wordpiece", size=16000),
}
Turn = Callable[[], int]  # builds one batch, gives back its real tokens


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=float, default=8, help="of text of each language")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1, help="of each turn")
    options = read_options(parser, rounds=1, megabytes=1.0, seconds=0.3)
    torch.set_num_threads(1)
    keep_freed_memory()  # as training does; the peer gets it too
    print("| text | contestant | tokens/s (lowest to highest) | tianci is, median of rounds |")
    print("|---|---|---|---|")
    for language in VOCABULARIES:
        with tempfile.TemporaryDirectory() as folder:
            compare(language, contestants(language, Path(folder), options.megabytes), options)


def compare(language: str, turns: dict[str, Turn], options: argparse.Namespace) -> None:
    speeds: dict[str, list[float]] = {name: [] for name in turns}
    for turn in turns.values():
        turn()  # whatever is made at first use
    for _ in range(options.rounds):
        for name, turn in turns.items():
            tokens, started = 0, time.perf_counter()
            while (spent := time.perf_counter() - started) < options.seconds:
                tokens += turn()
            speeds[name].append(tokens / spent)
    ours = speeds["tianci"]
    for name, values in speeds.items():
        ratio = statistics.median(a / b for a, b in zip(ours, values, strict=True))
        middle = statistics.median(values)
        print(
            f"| {language} | {name} | {middle:,.0f} ({min(values):,.0f} to {max(values):,.0f}) "
            f"| {ratio:.1f} times as fast |",
            flush=True,
        )


def contestants(language: str, folder: Path, megabytes: float) -> dict[str, Turn]:
    with gzip.open(DATA / f"wiki_{language}" / "train.txt.gz") as file:
        text = file.read(int(megabytes * 1e6))
    (folder / "text.txt").write_bytes(text[: text.rindex(b"\n\n") + 2])
    (folder / "vocabulary").mkdir()
    learn([folder / "text.txt"], VOCABULARIES[language])[0].save(folder / "vocabulary")
    settings = PrepareSettings(held=0.0)
    prepare([folder / "text.txt"], folder / "vocabulary", folder / "store", settings, threads=1)
    corpus = Corpus(folder / "store")
    recipe = Recipe(Joint((Masked(),)), LENGTH, 0.1, ROWS * LENGTH, seed=1)
    examples = Examples(SplitStore(corpus.split("train")), corpus.tokenizer(), recipe)
    draws = examples.draws(Position())

    def ours() -> int:
        pool, numbers, _ = next(draws)
        return len(pool.batch(numbers).tokens)

    rows = cut_rows(examples, 20_000)
    full = [row for row in rows if len(row) == LENGTH]
    peer = AutoTokenizer.from_pretrained(folder / "vocabulary")
    flags = [1] + [0] * (LENGTH - 2) + [1]
    configured = [
        {"input_ids": row, "special_tokens_mask": [1, *[0] * (len(row) - 2), 1]} for row in rows
    ]
    tensors = [
        {"input_ids": torch.tensor(r), "special_tokens_mask": torch.tensor(flags)} for r in full
    ]
    starts = (examples.words.starts(np.array(row)) for row in rows)
    words = [
        {**row, "offset_mapping": word_offsets(s)}
        for row, s in zip(configured, starts, strict=True)
        if len(s) == LENGTH
    ]
    return {
        "tianci": ours,
        "transformers, default": collator(peer, "pt", [{"input_ids": row} for row in rows]),
        "transformers, configured": collator(peer, "pt", configured),
        "transformers, configured, numpy": collator(peer, "np", configured),
        "transformers, tensors": collator(peer, "pt", tensors),
        "transformers, whole words": collator(peer, "pt", words, whole_word_mask=True),
    }


def word_offsets(starts: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Offsets with a gap before each word: what the collator takes as a word's beginning."""
    begins = np.arange(len(starts)) + np.cumsum(starts)
    return [(at, at + 1) for at in begins.tolist()]


def cut_rows(examples: Examples, most: int) -> list[list[int]]:
    """Sequences with special tokens, unmasked: those that ours makes too."""
    rows: list[list[int]] = []
    for pool, numbers in examples.once(most * LENGTH):
        for number in numbers.tolist():
            begin = int(pool.lengths[:number].sum())
            rows.append(pool.original[begin : begin + int(pool.lengths[number])].tolist())
    return rows


def collator(tokenizer: Any, kind: str, rows: list[dict[str, Any]], **options: bool) -> Turn:
    collate = DataCollatorForLanguageModeling(tokenizer, return_tensors=kind, **options)
    batches: Iterator[list[dict[str, Any]]] = itertools.cycle(
        [rows[at : at + ROWS] for at in range(0, len(rows) - ROWS + 1, ROWS)]
    )

    def turn() -> int:
        batch = next(batches)
        collate([dict(row) for row in batch])  # it takes things out of the rows
        return sum(len(row["input_ids"]) for row in batch)

    return turn


if __name__ == "__main__":
    main()
