"""Documents as ranges of numbered tokens: what examples are cut from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianci.data.corpus import Shard, Split


class Store(ABC):
    """Documents of sentences, all tokens numbered through."""

    @abstractmethod
    def count(self) -> int:
        """How many documents."""

    @abstractmethod
    def sentences(self, document: int) -> NDArray[np.int64]:
        """Token numbers where the sentences of a document begin, and the end of the last one."""

    @abstractmethod
    def read(self, start: int, end: int) -> NDArray[Any]:
        """The tokens of a range."""

    @abstractmethod
    def word_starts(self, start: int, end: int) -> NDArray[np.bool_] | None:
        """Where words begin in that range, if the store knows."""

    def many_sentences(
        self, documents: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """`sentences` of many documents end to end, and how many numbers each of them has."""
        found = [self.sentences(document) for document in documents.tolist()]
        return np.concatenate(found), np.array([len(one) for one in found], np.int64)

    def read_all(self, ranges: Sequence[tuple[int, int]]) -> list[NDArray[Any]]:
        """The tokens of many ranges."""
        return [self.read(*range_) for range_ in ranges]


class SplitStore(Store):
    """A split of a corpus; tokens are numbered through all shards."""

    def __init__(self, split: Split):
        self.split = split
        sizes = [shard.token_count for shard in split.shards]
        self._first = list(accumulate(sizes, initial=0))
        self._base = {id(s): b for s, b in zip(split.shards, self._first, strict=False)}

    def count(self) -> int:
        return self.split.documents

    def sentences(self, document: int) -> NDArray[np.int64]:
        shard, local = self.split.locate(document)
        first, last = shard.documents.item(local), shard.documents.item(local + 1)
        return shard.sentences[first : last + 1].astype(np.int64) + self._base[id(shard)]

    def many_sentences(
        self, documents: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        which, firsts, counts = (table[documents] for table in self._tables)
        shards, ends = self.split.shards, firsts + counts
        parts = zip(which.tolist(), firsts.tolist(), ends.tolist(), strict=True)
        found = np.concatenate([shards[at].sentences[first:end] for at, first, end in parts])
        bases = np.array(self._first)[which]
        return found + np.repeat(bases, counts), counts.astype(np.int64)

    @cached_property
    def _tables(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """Of each document: its shard, its first sentence there, and how many borders it has."""
        inside = [shard.documents for shard in self.split.shards]
        return (
            np.repeat(np.arange(len(inside), dtype=np.int32), [len(one) - 1 for one in inside]),
            np.concatenate([one[:-1] for one in inside]),
            np.concatenate([np.diff(one) + 1 for one in inside]),
        )

    def read(self, start: int, end: int) -> NDArray[Any]:
        found = [shard.tokens[a:b] for shard, a, b in self._pieces(start, end)]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def read_all(self, ranges: Sequence[tuple[int, int]]) -> list[NDArray[Any]]:
        starts, ends = np.array(ranges, np.int64).reshape(-1, 2).T
        firsts = np.array(self._first)
        which = np.searchsorted(firsts, starts, side="right") - 1
        if (ends > firsts[which + 1]).any():  # more than one shard
            return super().read_all(ranges)
        shards, first = self.split.shards, firsts[which]
        parts = zip(which.tolist(), (starts - first).tolist(), (ends - first).tolist(), strict=True)
        return [shards[at].tokens[start:end] for at, start, end in parts]

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
