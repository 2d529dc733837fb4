"""A small vocabulary, small documents, and dice that fall as written."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tianci.data.memory import MemoryStore
from tianci.text.tokenizer import Tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CHINESE = list("我你他们有的是不了在人大中到说国和地上天气今错雨伞忘带网袋散圆周率增长约")
WORDS = ["play", "##ing", "##ed", "run", "##s", "a", "b", "c", "the", "dog", "cat"]
NUMBERS = ["3", "14", "12", "5", "1", "000", ".", ",", "%", "，", "。"]
VOCABULARY = [*SPECIAL, *CHINESE, *WORDS, *NUMBERS]


def tokenizer(vocabulary: Sequence[str] = VOCABULARY) -> Tokenizer:
    """A wordpiece tokenizer with just these entries."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
        return Tokenizer.load(folder)


def ids(text: str) -> list[int]:
    """The ids of tokens written with spaces between them."""
    return [VOCABULARY.index(token) for token in text.split()]


def store(
    seed: int = 0,
    documents: int = 30,
    sentences: int = 12,
    length: int = 20,
    vocabulary: Sequence[str] = VOCABULARY,
) -> MemoryStore:
    """Random documents; about one token in five goes on with the word before."""
    r = np.random.default_rng(seed)
    goes_on = [i for i, token in enumerate(vocabulary) if token.startswith("##")]
    begins = [i for i in range(len(SPECIAL), len(vocabulary)) if i not in goes_on]

    def sentence() -> list[int]:
        size = int(r.integers(1, 2 * length))
        tokens = r.choice(begins, size)
        later = r.random(size) < 0.2
        later[0] = False
        tokens[later] = r.choice(goes_on, int(later.sum()))
        return [int(t) for t in tokens]

    return MemoryStore(
        [[sentence() for _ in range(int(r.integers(1, 2 * sentences)))] for _ in range(documents)]
    )


class Dice:
    """Stands in for a random generator: gives what was written down, in that order."""

    def __init__(self, *values: Any):
        self.values = list(values)

    def random(self, size: int | None = None) -> Any:
        value = self.values.pop(0)
        assert np.shape(value) == (() if size is None else (size,))
        return value if size is None else np.array(value)

    def integers(self, low: int, high: int | None = None, size: int | None = None) -> Any:
        low, high = (0, low) if high is None else (low, high)
        value = np.array(self.values.pop(0), np.int64)
        assert value.shape == (() if size is None else (size,))
        assert ((value >= low) & (value < high)).all()
        return value
