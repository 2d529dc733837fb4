"""Texts that are nearly the same: Jaccard similarity of their shingles (three words in a row; a
Chinese character is a word).

Two sets with a similarity of at least t share at least k of their first (1 - t) n + k elements, if
both are sorted in the same order (prefix filtering, Chaudhuri et al. 2006). With rare shingles
first, almost no texts are compared in vain, and unlike MinHash it misses nothing (as long as no
more than WIDEST texts share their rarest shingles).
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
SHINGLE = 3
LONGEST = 5000  # characters of a text that are compared
MOST = 1 << 24  # shingles in memory; beyond, a fixed share of them stands for all
WIDEST = 64  # texts with the same shingle that are compared with one text
CHUNK = 1 << 22  # shingles compared at once
BLOCK = 1000  # texts cut into words at once
HASH, COUNT, TABLE = 32, 8, 22  # bits
RANK = (1 << HASH + COUNT) - 1
FACTOR = np.uint64(0x9E3779B97F4A7C15)
PLACES = np.random.default_rng(0).integers(1, 1 << 63, 32, np.uint64) | np.uint64(1)

_WORD = re.compile(r"[^\W_]+")
_SPACE = re.compile("(?: (?![a-z0-9])| (?<![a-z0-9] ))")  # not between two Latin words or numbers


def normal(text: str) -> str:
    """The text without differences in case, width, white space and punctuation."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    words = " ".join(_WORD.findall(text.lower()))  # 1-0 is not 10
    return words if words.isascii() else _SPACE.sub("", words)


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
        if not len(left):
            return {}
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
        common = 1 + self.sizes // 20  # k: more for long texts, which have some words in common
        prefix = place < (self.sizes - needed + common)[doc]
        rank, doc = self.elements[prefix] & RANK, doc[prefix]
        old = doc < before
        order = np.argsort(rank[old], kind="stable")
        ranks, olds = rank[old][order], doc[old][order]
        rank, doc = rank[~old], doc[~old]
        first = np.searchsorted(ranks, rank, "left")
        count = np.minimum(np.searchsorted(ranks, rank, "right") - first, WIDEST)
        # a part of the texts at a time: each shingle may meet many others
        begins = np.flatnonzero(np.append(True, doc[1:] != doc[:-1])[: len(doc)])
        cuts = begins[1:][np.diff(np.cumsum(count)[begins] // CHUNK) > 0]
        found = [np.empty((2, 0), np.int64)]
        for some in np.split(np.arange(len(doc)), cuts):
            left = olds[_ranges(first[some], count[some])]
            right = np.repeat(doc[some], count[some])
            found.append(self._likely(left, right, common, least))
        left, right = np.concatenate(found, axis=1)
        return left, right

    def _likely(self, left: Ints, right: Ints, common: Ints, least: float) -> Ints:
        """Of pairs that are listed once per shared element those that share enough."""
        pairs, shared = np.unique(left << HASH | right, return_counts=True)
        left, right = pairs >> HASH, pairs & (1 << HASH) - 1
        small, large = np.sort([self.sizes[left], self.sizes[right]], axis=0)
        fits = (small >= least * large - 1e-9) & (shared >= np.minimum(common[left], common[right]))
        return np.stack([left[fits], right[fits]])

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
    """Sorted numbers: text (23 bits), how frequent the shingle is (8), its hash (32)."""
    blocks = [_units(texts[at : at + BLOCK]) for at in range(0, len(texts), BLOCK)]
    units = np.concatenate([units for units, _ in blocks])
    doc = np.concatenate([doc + number * BLOCK for number, (_, doc) in enumerate(blocks)])
    mixed = units[: -SHINGLE + 1].copy()
    for at in range(1, SHINGLE):
        mixed = mixed * FACTOR ^ units[at : len(mixed) + at]
    inside = doc[: len(mixed)] == doc[SHINGLE - 1 :]  # all of one text
    hashes = (mixed[inside] * FACTOR >> np.uint64(64 - HASH)).astype(np.int64)
    doc = doc[: len(mixed)][inside]
    if (share := -(-len(hashes) // MOST)) > 1:
        some = hashes % share == 0
        hashes, doc = hashes[some], doc[some]
    slots = hashes & (1 << TABLE) - 1
    # how often, about: two shingles may share a slot, but the order is the same for all texts
    often = np.minimum(np.bincount(slots, minlength=1 << TABLE), (1 << COUNT) - 1)[slots]
    return np.sort(doc << (HASH + COUNT) | often << HASH | hashes)


def _units(texts: Sequence[str]) -> tuple[NDArray[np.uint64], Ints]:
    """A number for each Latin word and each other character, and the text it is in."""
    # the ends are filled up, so that a text of one word has a shingle too
    filled = [text[:LONGEST] + "\0" * (SHINGLE - 1) if text else "" for text in texts]
    codes = np.frombuffer("".join(filled).encode("utf-32-le", "surrogatepass"), np.uint32)
    latin = ((codes >= ord("a")) & (codes <= ord("z"))) | (
        (codes >= ord("0")) & (codes <= ord("9"))
    )
    starts = np.flatnonzero(np.append(True, ~(latin[1:] & latin[:-1]))[: len(codes)])
    length = np.diff(np.append(starts, len(codes)))
    place = np.arange(len(codes)) - np.repeat(starts, length)  # in the word
    # the sum over a word of letter times a number for its place
    letters = (codes.astype(np.uint64) + np.uint64(1)) * (PLACES[place % len(PLACES)])
    units = np.add.reduceat(letters, starts) if len(starts) else letters
    doc = np.repeat(np.arange(len(texts)), [len(text) for text in filled])[starts]
    seen = codes[starts] != ord(" ")
    return units[seen] ^ units[seen] >> np.uint64(31), doc[seen]
