"""A split of a corpus as numbered tokens: what examples are cut from."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianci.data.corpus import Shard, Split


class SplitStore:
    """Tokens are numbered through all shards."""

    def __init__(self, split: Split):
        self.split = split
        sizes = [shard.token_count for shard in split.shards]
        self._first = list(accumulate(sizes, initial=0))
        self._base = {id(s): b for s, b in zip(split.shards, self._first, strict=False)}

    def count(self) -> int:
        return self.split.documents

    def sentences(self, document: int) -> NDArray[np.int64]:
        shard, local = self.split.locate(document)
        first, last = shard.documents[local], shard.documents[local + 1]
        return shard.sentences[first : last + 1].astype(np.int64) + self._base[id(shard)]

    def read(self, start: int, end: int) -> NDArray[Any]:
        found = [shard.tokens[a:b] for shard, a, b in self._pieces(start, end)]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def word_starts(self, start: int, end: int) -> NDArray[np.bool_] | None:
        flags = [shard.word_starts(a, b) for shard, a, b in self._pieces(start, end)]
        known = [one for one in flags if one is not None]
        return np.concatenate(known) if len(known) == len(flags) else None

    def _pieces(self, start: int, end: int) -> list[tuple[Shard, int, int]]:
        """A range as shards and what it takes of each."""
        found = []
        at = self._shard(start)
        while True:
            first, last = self._first[at], self._first[at + 1]
            found.append((self.split.shards[at], start - first, min(end, last) - first))
            if end <= last:
                return found
            start, at = last, at + 1

    def _shard(self, token: int) -> int:
        return bisect_right(self._first, token) - 1
