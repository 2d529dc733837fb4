"""Where Chinese words begin among the tokens of a sentence (jieba, from the `zh` extra)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tianci.errors import need
from tianci.text.tokenizer import Tokenizer

BATCH = 256


class WordStarts:
    """Marks the first token of each word; English words and numbers are words too."""

    def __init__(self, tokenizer: Tokenizer):
        jieba = need("jieba", "zh")
        jieba.setLogLevel("ERROR")  # it greets on standard error otherwise
        self._cut = jieba.lcut
        self._tokenizer = tokenizer

    def mark(self, sentences: Sequence[str]) -> npt.NDArray[np.bool_]:
        """One value per token of all sentences in a row."""
        marks: list[npt.NDArray[np.bool_]] = []
        for start in range(0, len(sentences), BATCH):
            batch = sentences[start : start + BATCH]
            encodings = self._tokenizer.encode(batch, special=False)
            for sentence, encoded in zip(batch, encodings, strict=True):
                marks.append(self._mark(sentence, encoded.offsets))
        return np.concatenate([*marks, np.empty(0, np.bool_)])

    def _mark(self, sentence: str, offsets: Sequence[tuple[int, int]]) -> npt.NDArray[np.bool_]:
        lengths = [len(word) for word in self._cut(sentence)]
        word_of = np.repeat(np.arange(len(lengths)), lengths)
        if not len(word_of) or not offsets:
            return np.ones(len(offsets), np.bool_)
        starts = np.minimum([start for start, _ in offsets], len(word_of) - 1)
        changes: npt.NDArray[np.bool_] = np.diff(word_of[starts], prepend=-1) != 0
        return changes
