"""A split of a corpus as numbered tokens: what examples are cut from."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianci.data.corpus import Split


class SplitStore:
    """Tokens are numbered through all shards; a range never leaves its document, hence its
    shard."""

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
        at = self._shard(start)
        base = self._first[at]
        return self.split.shards[at].tokens[start - base : end - base]

    def word_starts(self, start: int, end: int) -> NDArray[np.bool_] | None:
        at = self._shard(start)
        base = self._first[at]
        return self.split.shards[at].word_starts(start - base, end - base)

    def _shard(self, token: int) -> int:
        return bisect_right(self._first, token) - 1
