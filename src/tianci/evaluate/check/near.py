"""Texts that are nearly the same: Jaccard similarity of their shingles (four characters in a row).

Two sets with a similarity of at least t share one of their rarest (1 - t) n + 1 elements, if both
are sorted in the same order (prefix filtering, Chaudhuri et al. 2006). So only few texts are
compared, and with rare shingles first almost none in vain; unlike MinHash it misses nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Parts = tuple[str, ...]

LEAST = 0.9  # similarity from which texts count as nearly the same
SHINGLE = 4
LONGEST = 2000  # characters of a text that are compared
MOST = 1 << 24  # shingles in memory; beyond, a fixed share of them stands for all
WIDEST = 64  # texts with the same shingle that are compared with one text
CHUNK = 1 << 22  # shingles compared at once
HASH, COUNT, TABLE = 32, 8, 22  # bits
RANK = (1 << HASH + COUNT) - 1
FACTOR = np.uint64(0x9E3779B97F4A7C15)

_JOINT = re.compile(r"(?<=[a-z0-9])[\W_]+(?=[a-z0-9])")
_REST = re.compile(r"(?<![a-z0-9])[\W_]+|[\W_]+(?![a-z0-9])")


def normal(text: str) -> str:
    """The text without differences in case, width, white space and punctuation."""
    text = unicodedata.normalize("NFKC", text).lower()
    return _REST.sub("", _JOINT.sub(" ", text))  # 1-0 is not 10


def near_copies(
    before: Sequence[Parts], after: Sequence[Parts], least: float = LEAST
) -> dict[int, tuple[int, float]]:
    """For texts of `after` the most similar one of `before`, and how similar; texts are `normal`.

    A text may have several parts (a pair, a passage and a question): each must be similar.
    """
    if not before or not after:
        return {}
    both = [*before, *after]
    parts = range(len(both[0]))
    # whatever is similar is so in each part: look where texts differ most
    telling = max(parts, key=lambda part: len({text[part] for text in both}))
    left, right = _Sets([text[telling] for text in both]).candidates(len(before), least)
    similar = np.ones(len(left))
    for part in parts:
        docs, where = np.unique(np.concatenate([left, right]), return_inverse=True)
        sets = _Sets([both[doc][part] for doc in docs.tolist()])
        similar = np.minimum(similar, sets.jaccard(where[: len(left)], where[len(left) :]))
        keep = similar >= least
        left, right, similar = left[keep], right[keep], similar[keep]
    best: dict[int, tuple[int, float]] = {}
    order = np.lexsort((left, -similar))
    for one, other, value in zip(left[order], right[order], similar[order], strict=True):
        best.setdefault(int(other) - len(before), (int(one), float(value)))
    return best


class _Sets:
    """The shingles of texts as sets of numbers, within a text the rarest first."""

    def __init__(self, texts: Sequence[str]):
        keys = _shingles(texts)
        self.elements = keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys
        self.starts = np.searchsorted(self.elements >> (HASH + COUNT), np.arange(len(texts) + 1))

    @cached_property
    def sizes(self) -> Ints:
        return np.diff(self.starts)

    def candidates(self, before: int, least: float) -> tuple[Ints, Ints]:
        """Pairs (a text below the number `before`, one from there on) that may be similar."""
        doc = self.elements >> (HASH + COUNT)
        place = np.arange(len(doc)) - self.starts[doc]
        needed = np.ceil(least * self.sizes - 1e-9).astype(np.int64)
        prefix = place <= (self.sizes - needed)[doc]
        rank, doc = self.elements[prefix] & RANK, doc[prefix]
        old = doc < before
        order = np.argsort(rank[old], kind="stable")
        ranks, olds = rank[old][order], doc[old][order]
        first = np.searchsorted(ranks, rank[~old], "left")
        count = np.minimum(np.searchsorted(ranks, rank[~old], "right") - first, WIDEST)
        right = np.repeat(doc[~old], count)
        left = olds[_ranges(first, count)]
        pairs = np.unique(left << HASH | right)
        left, right = pairs >> HASH, pairs & (1 << HASH) - 1
        small, large = np.sort([self.sizes[left], self.sizes[right]], axis=0)
        fits = small >= least * large - 1e-9
        return left[fits], right[fits]

    def jaccard(self, left: Ints, right: Ints) -> NDArray[np.float64]:
        """Shared elements divided by all, for each pair of texts."""
        sizes = self.sizes[left] + self.sizes[right]
        cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // CHUNK)) + 1
        shared = np.empty(len(left), np.int64)
        for some in np.split(np.arange(len(left)), cuts):
            both = np.sort(np.concatenate([self._of(left[some]), self._of(right[some])]))
            again = both[1:][both[1:] == both[:-1]] >> (HASH + COUNT)
            shared[some] = np.bincount(again, minlength=len(some))
        union = sizes - shared
        return np.where(union > 0, shared / np.maximum(union, 1), 1.0)

    def _of(self, docs: Ints) -> Ints:
        """The elements of some texts, marked with the text's number in the list."""
        sizes = self.sizes[docs]
        elements = self.elements[_ranges(self.starts[docs], sizes)] & RANK
        return np.repeat(np.arange(len(docs)), sizes) << (HASH + COUNT) | elements


def _ranges(first: Ints, count: Ints) -> Ints:
    """first[0], first[0] + 1, ... count[0] of them, then those of the next."""
    total = np.cumsum(count)
    return np.repeat(first - total + count, count) + np.arange(total[-1] if len(total) else 0)


def _shingles(texts: Sequence[str]) -> Ints:
    """Sorted numbers: text (24 bits), how frequent the shingle is (8), its hash (32)."""
    # the ends are filled up, so that a text of one character has a shingle too
    filled = [text[:LONGEST] + "\0" * (SHINGLE - 1) if text else "" for text in texts]
    lengths = np.array([len(text) for text in filled], np.int64)
    codes = np.frombuffer("".join(filled).encode("utf-32-le", "surrogatepass"), np.uint32)
    if not len(codes):
        return np.empty(0, np.int64)
    windows = len(codes) - SHINGLE + 1
    mixed = np.zeros(windows, np.uint64)
    for at in range(SHINGLE):
        mixed = (mixed ^ codes[at : at + windows]) * FACTOR
        mixed ^= mixed >> np.uint64(29)
    doc = np.repeat(np.arange(len(texts)), lengths)[:windows]
    inside = np.arange(windows) + SHINGLE <= np.cumsum(lengths)[doc]
    hashes, doc = (mixed[inside] * FACTOR >> np.uint64(64 - HASH)).astype(np.int64), doc[inside]
    if (share := -(-len(hashes) // MOST)) > 1:
        some = hashes % share == 0
        hashes, doc = hashes[some], doc[some]
    slots = hashes & (1 << TABLE) - 1
    # how often, about: two shingles may share a slot, but the order is the same for all texts
    often = np.minimum(np.bincount(slots, minlength=1 << TABLE), (1 << COUNT) - 1)[slots]
    return np.sort(doc << (HASH + COUNT) | often << HASH | hashes)
