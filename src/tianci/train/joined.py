"""Neighbouring documents as one, a separator between them, so that sequences fill up across the
borders of documents (RoBERTa's "full sentences")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianci.data.store import Store
from tianci.goals.objectives.segments import Borders

Spans = NDArray[np.int64]


class JoinedStore(Store):
    """A store of fewer, longer documents; `tokens`: about how long.

    Tokens are numbered anew: every document (of D) is followed by one place for a separator.
    """

    def __init__(self, store: Store, separator: int, tokens: int):
        self.store, self.separator = store, separator
        borders = [store.sentences(document)[[0, -1]] for document in range(store.count())]
        self.old, ends = np.array(borders, np.int64).reshape(-1, 2).T  # (D,) first tokens
        self.sizes = ends - self.old  # (D,)
        self.new = np.r_[0, np.cumsum(self.sizes + 1)]  # (D + 1,)
        which = self.new[:-1] // tokens
        self.groups = np.r_[0, np.flatnonzero(np.diff(which)) + 1, len(which)]

    def count(self) -> int:
        return len(self.groups) - 1 if len(self.sizes) else 0

    def sentences(self, document: int) -> Borders:
        """The borders of all sentences; a separator belongs to the sentence before it."""
        first, end = (int(d) for d in self.groups[document : document + 2])
        moved = [
            self.store.sentences(d)[:-1] + (self.new[d] - self.old[d]) for d in range(first, end)
        ]
        return np.concatenate([*moved, self.new[end : end + 1] - 1])

    def read(self, start: int, end: int) -> NDArray[Any]:
        tokens = np.full(end - start, self.separator, np.int64)
        for place, a, b in self._pieces(start, end):
            tokens[place : place + b - a] = self.store.read(a, b)
        return tokens

    def word_starts(self, start: int, end: int) -> NDArray[np.bool_] | None:
        starts = np.ones(end - start, bool)
        for place, a, b in self._pieces(start, end):
            known = self.store.word_starts(a, b)
            if known is None:
                return None
            starts[place : place + b - a] = known
        return starts

    def trimmed(self, spans: Spans) -> Spans:
        """(E, 4) spans without separators at their ends, where the template has its own."""
        starts, ends = spans[:, 0].copy(), spans[:, 1].copy()
        starts += self._is_separator(starts)
        ends -= (ends > starts) & self._is_separator(ends - 1)
        trimmed = spans.copy()
        trimmed[:, 0], trimmed[:, 1] = starts, ends
        return trimmed[ends > starts]

    def _is_separator(self, tokens: Spans) -> NDArray[np.bool_]:
        which = np.searchsorted(self.new, tokens, side="right")
        flags: NDArray[np.bool_] = self.new[np.minimum(which, len(self.new) - 1)] == tokens + 1
        return flags

    def _document(self, token: int) -> int:
        return int(np.searchsorted(self.new, token, side="right")) - 1

    def _pieces(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """(place in the range, first and last token in the store) of all text in a range."""
        document = self._document(start)
        while document < len(self.sizes) and self.new[document] < end:
            new, size = int(self.new[document]), int(self.sizes[document])
            a, b = max(start, new), min(end, new + size)
            if a < b:
                shift = int(self.old[document]) - new
                yield a - start, a + shift, b + shift
            document += 1
