"""Sequences of nearly equal lengths, filled up to one, inside attention only.

The library behind products in bf16 makes a kernel for each shape it meets, and ragged text brings
new shapes in every step. Lengths are rounded up, and numbers of sequences are powers of two: few
shapes, and a third of the calls, which is 5 to 7 % of a step in float32 too (with dropout). What is
filled up is never seen by a softmax.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

STEP = 16  # lengths are rounded up to a multiple


@dataclass(frozen=True, eq=False)
class Bucket:
    """Neighbouring sequences: a (rows, length) rectangle in which some places are empty."""

    start: int
    rows: int
    length: int
    tokens: int  # real ones
    places: Tensor | None  # (rows * length,) which token stands there; None: nothing is empty
    real: Tensor  # (tokens,) where each of them stands in the rectangle
    empty: Tensor  # (rows, 1, 1, length) True behind the end of a sequence

    def filled(self, packed: Tensor) -> Tensor:
        """(T, ...) -> (rows * length, ...); in empty places stands the sequence's last token."""
        part = packed[self.start : self.start + self.tokens]
        return part if self.places is None else part.index_select(0, self.places)


@lru_cache(maxsize=8)  # the layers of a step ask for the same
def buckets(lengths: Sequence[int], most: int) -> tuple[Bucket, ...]:
    """The sequences in their order, in rectangles of at most `most` places of length * length."""
    found: list[Bucket] = []
    first = start = 0
    while first < len(lengths):
        length = -(-lengths[first] // STEP) * STEP
        fits = max(1, most // length**2)
        last = first
        while (
            last < len(lengths)
            and last - first < fits
            and -length <= -lengths[last] < STEP - length
        ):
            last += 1
        last = first + (1 << ((last - first).bit_length() - 1))
        found.append(_bucket(start, lengths[first:last], length))
        start += found[-1].tokens
        first = last
    return tuple(found)


def _bucket(start: int, lengths: Sequence[int], length: int) -> Bucket:
    sizes = torch.tensor(lengths)[:, None]
    place = torch.arange(length).expand(len(lengths), -1)
    empty = place >= sizes
    begins = sizes.cumsum(0) - sizes
    places = (begins + torch.minimum(place, sizes - 1)).flatten()
    tokens, full = sum(lengths), not bool(empty.any())
    real = (~empty).flatten().nonzero().flatten()
    return Bucket(
        start, len(lengths), length, tokens, None if full else places, real, empty[:, None, None]
    )
