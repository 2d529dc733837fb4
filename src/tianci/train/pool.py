"""Masked examples end to end, and the batches that are taken out of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tianci.batch import Batch, Layout
from tianci.data import end_to_end
from tianci.train import drawing
from tianci.train.drawing import Ids


@dataclass(frozen=True)
class Pool:
    """Examples laid end to end, already masked."""

    seen: NDArray[Any]  # (T,) tokens as the model sees them
    places: Ids  # (M,) which tokens are to be guessed, in order
    answers: Ids  # (M,) what they were
    segments: NDArray[np.int8] | None  # (T,); none where there are no second segments
    lengths: Ids  # (E,)
    labels: Ids  # (E,)
    spans: Ids  # (E, 4) where the segments stand in the store: start and end of both

    @cached_property
    def begins(self) -> Ids:
        """(E,) where each example begins."""
        return end_to_end.begins(self.lengths)

    def sort(self, numbers: Ids) -> Ids:
        """The order in which a batch holds its examples: longest first."""
        return drawing.longest_first(self.lengths, numbers)

    @cached_property
    def asked(self) -> Ids:
        """(E + 1,) which of the places is the first one of each example."""
        return np.searchsorted(self.places, np.append(self.begins, len(self.seen)))

    @cached_property
    def original(self) -> NDArray[Any]:
        """(T,) the tokens of the text."""
        tokens = self.seen.copy()
        tokens[self.places] = self.answers
        return tokens

    def batch(self, numbers: Ids) -> Batch:
        """The examples of these numbers, longest first."""
        some, lengths = numbers.tolist(), self.lengths[numbers].tolist()
        if some != list(range(some[0], some[-1] + 1)) or lengths != sorted(lengths, reverse=True):
            pool, (all_,) = self.arranged([numbers])
            return pool.batch(all_)
        first, last = some[0], some[-1] + 1
        begin, layout = self.begins.item(first), Layout(lengths)
        tokens = slice(begin, begin + layout.tokens)
        asked = slice(self.asked.item(first), self.asked.item(last))
        return Batch(
            tokens=torch.from_numpy(self.seen[tokens].astype(np.int64)),
            layout=layout,
            segments=torch.zeros(layout.tokens, dtype=torch.int64)
            if self.segments is None
            else torch.from_numpy(self.segments[tokens].astype(np.int64)),
            targets={
                "masked_at": torch.from_numpy(self.places[asked] - begin),
                "masked_is": torch.from_numpy(self.answers[asked]),
                "label": torch.from_numpy(self.labels[first:last]),
            },
        )

    def arranged(self, plan: Sequence[Ids]) -> tuple[Pool, list[Ids]]:
        """The examples of all batches side by side, longest first, and their new numbers.

        Done once for a pool, this is cheaper than to gather the tokens of each batch.
        """
        order = np.concatenate([self.sort(numbers) for numbers in plan])
        lengths, old = self.lengths[order], self.begins[order]
        first, counts = self.asked[order], np.diff(self.asked)[order]
        asked = end_to_end.ranges(first, counts)
        pool = Pool(
            end_to_end.pieces(self.seen, old, old + lengths),
            self.places[asked] + np.repeat(end_to_end.begins(lengths) - old, counts),
            self.answers[asked],
            None if self.segments is None
            else end_to_end.pieces(self.segments, old, old + lengths),
            lengths,
            self.labels[order],
            self.spans[order],
        )  # fmt: skip
        ends = np.cumsum([len(numbers) for numbers in plan])
        return pool, np.split(np.arange(len(order)), ends[:-1])

    def plan(self, budget: int, rng: np.random.Generator) -> list[Ids]:
        """All examples in random order, cut into batches of about `budget` tokens."""
        return drawing.plan(self.lengths, budget, rng)
