"""Cutting documents into examples: one segment, or two with a question about how they belong
together.

Everything is a range of token numbers; no token is copied here. `sentences` are the S + 1 borders
of a document's sentences, `room` is the number of tokens an example has place for (special tokens
are extra).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tianci.goals.base import Goal

Borders = NDArray[np.int64]
Span = tuple[int, int]


class Example(NamedTuple):
    """One training sequence before special tokens: [CLS] a [SEP] or [CLS] a [SEP] b [SEP]."""

    a: Span
    b: Span | None = None
    label: int = 0
    opens: bool = False  # whether its document begins with it
    closes: bool = False  # whether its document ends with it

    @property
    def tokens(self) -> int:
        return self.a[1] - self.a[0] + (self.b[1] - self.b[0] if self.b else 0)


class Documents(Protocol):
    """Where a pairing objective finds sentences of other documents."""

    def count(self) -> int:
        """How many documents there are."""

    def sentences(self, document: int) -> Borders:
        """The borders of one document's sentences."""


@dataclass(frozen=True)
class Pairing(Goal):
    """An objective that decides how segments are paired."""

    def cut(
        self, documents: Documents, document: int, room: int, short: float, rng: np.random.Generator
    ) -> Iterator[Example]:
        """The examples of one document."""
        raise TypeError(f"{self.name} does not pair segments")


def target_length(room: int, short: float, rng: np.random.Generator) -> int:
    """The full room, or now and then less, so that short inputs are seen in training too."""
    return int(rng.integers(2, room + 1)) if rng.random() < short else room


class Targets:
    """The same for many, drawn a few thousand at once."""

    def __init__(self, room: int, short: float, rng: np.random.Generator):
        self.room, self.short, self.rng = room, short, rng
        self.drawn = np.zeros(0, np.int64)

    def take(self, count: int) -> NDArray[np.int64]:
        """The next ones."""
        if count > len(self.drawn):
            size = max(count, 4096)
            shorter = self.rng.integers(2, self.room + 1, size)
            self.drawn = np.where(self.rng.random(size) < self.short, shorter, self.room)
        taken, self.drawn = self.drawn[:count], self.drawn[count:]
        return taken


FEW = 16  # documents; numpy gains nothing below that


def whole(borders: Borders, firsts: Borders, targets: Targets) -> Borders:
    """Where examples of one segment begin, in documents that lie end to end.

    As many whole sentences as fit; a longer sentence is cut, not dropped. `borders` are those of
    all sentences, in order, `firsts` those of the documents. All documents are cut at once, one
    example further in each round.
    """
    at, ends = firsts, np.append(firsts[1:], borders[-1])
    found = [at]
    while len(at) > FEW:
        wanted = at + targets.take(len(at))
        going = wanted < ends
        at, ends, wanted = at[going], ends[going], wanted[going]
        # the last sentence border that still fits, if any lies behind the start
        border = borders[borders.searchsorted(wanted, side="right") - 1]
        at = np.where(border > at, border, wanted)
        found.append(at)
    rest = zip(at.tolist(), ends.tolist(), *borders.searchsorted((at, ends)).tolist(), strict=True)
    for start, end, low, high in rest:
        found.append(_rest(borders[low:high].tolist(), start, end, targets))
    return np.sort(np.concatenate(found))


def _rest(borders: list[int], start: int, end: int, targets: Targets) -> Borders:
    """The same for what is left of one document, which may be a whole book."""
    cuts: list[int] = []
    while True:
        for target in targets.take(1 + (end - start) // targets.room).tolist():
            if start + target >= end:
                return np.array(cuts, np.int64)
            fitting = bisect_right(borders, start + target)
            border = borders[fitting - 1] if fitting else start
            start = border if border > start else start + target
            cuts.append(start)


class Chunk(NamedTuple):
    """Consecutive sentences of about the target length, and where they are split in two."""

    first: int  # sentence number
    last: int  # sentence number, exclusive
    split: int  # token number
    split_sentence: int  # the first sentence behind the split
    inside: bool = False  # whether the split lies inside a sentence


def chunk(sentences: Borders, first: int, target: int, rng: np.random.Generator) -> Chunk | None:
    """The next chunk from sentence `first` on, as in the original procedure; None if it cannot be
    split.

    A chunk of one sentence is split inside it: otherwise it could never be a real continuation,
    and the two classes would not be equally frequent.
    """
    wanted = sentences[first] + target
    last = max(int(np.searchsorted(sentences, wanted, side="left")), first + 1)
    last = min(last, len(sentences) - 1)
    if last - first >= 2:
        middle = int(rng.integers(first + 1, last))
        return Chunk(first, last, int(sentences[middle]), middle)
    start, end = int(sentences[first]), int(sentences[last])
    end = min(end, start + target)
    if end - start < 2:
        return None
    return Chunk(first, last, int(rng.integers(start + 1, end)), last, True)


def fit(a: Span, b: Span, room: int, rng: np.random.Generator) -> tuple[Span, Span]:
    """Cuts the longer one, a token at a time from a random end, until both fit (original
    procedure)."""
    spans = [list(a), list(b)]
    extra = (a[1] - a[0]) + (b[1] - b[0]) - room
    if extra <= 0:
        return a, b
    from_front = rng.random(extra) < 0.5
    for front in from_front:
        longer = spans[0] if spans[0][1] - spans[0][0] > spans[1][1] - spans[1][0] else spans[1]
        if front:
            longer[0] += 1
        else:
            longer[1] -= 1
    return (spans[0][0], spans[0][1]), (spans[1][0], spans[1][1])
