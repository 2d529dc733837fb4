"""A token store in memory: for tests and small texts that need no files."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tianci.data.store import Store


class MemoryStore(Store):
    """Documents of sentences of token ids."""

    def __init__(self, documents: Sequence[Sequence[Sequence[int]]]):
        sentences = [s for document in documents for s in document]
        self.tokens = np.array([t for s in sentences for t in s], np.int64)
        borders = np.cumsum([0, *(len(s) for s in sentences)])
        firsts = np.cumsum([0, *(len(d) for d in documents)])
        self._sentences = [borders[a : b + 1] for a, b in pairwise(firsts)]

    def count(self) -> int:
        return len(self._sentences)

    def sentences(self, document: int) -> NDArray[np.int64]:
        return self._sentences[document]

    def read(self, start: int, end: int) -> NDArray[np.int64]:
        return self.tokens[start:end]

    def word_starts(self, start: int, end: int) -> NDArray[np.bool_] | None:
        return None
