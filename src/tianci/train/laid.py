"""Pools of examples that an objective has laid out itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from tianci.batch import Batch, Layout
from tianci.data import end_to_end
from tianci.goals.laying import Laid
from tianci.goals.objectives.segments import Example
from tianci.train import drawing
from tianci.train.drawing import Ids


@dataclass(frozen=True)
class Rows:
    """Sequences end to end."""

    ids: Ids  # (T,)
    lengths: Ids  # (E,)

    @classmethod
    def of(cls, sequences: Sequence[Ids]) -> Rows:
        ids = np.concatenate(sequences) if sequences else np.zeros(0, np.int64)
        return cls(ids, np.array([len(s) for s in sequences], np.int64))

    @cached_property
    def begins(self) -> Ids:
        """(E,) where each sequence begins."""
        return end_to_end.begins(self.lengths)

    def batch(self, numbers: Ids, prefix: Sequence[int] | None = None) -> Batch:
        """These sequences, in the order given."""
        index = end_to_end.ranges(self.begins[numbers], self.lengths[numbers])
        tokens = torch.from_numpy(self.ids[index])
        return Batch(tokens, Layout(self.lengths[numbers].tolist(), prefix=prefix))


@dataclass(frozen=True)
class LaidPool:
    """Sources (or whole sequences) and, for models with a decoder, targets."""

    examples: Sequence[Example]
    laid: Sequence[Laid]

    @cached_property
    def sources(self) -> Rows:
        return Rows.of([one.ids for one in self.laid])

    @cached_property
    def targets(self) -> Rows | None:
        found = [one.decoder for one in self.laid if one.decoder is not None]
        return Rows.of(found) if found else None

    @cached_property
    def lengths(self) -> Ids:
        """(E,) tokens of each example, source and target together."""
        more = self.targets.lengths if self.targets else 0
        total: Ids = self.sources.lengths + more
        return total

    def sort(self, numbers: Ids) -> Ids:
        """The order in which a batch holds its examples: longest source first."""
        return drawing.longest_first(self.sources.lengths, numbers)

    def batch(self, numbers: Ids) -> Batch:
        """The examples of these numbers, longest first."""
        numbers = self.sort(numbers)
        prefix = [self.laid[n].prefix for n in numbers.tolist()]
        batch = self.sources.batch(numbers, prefix if any(prefix) else None)
        if self.targets is None:
            return batch
        return Batch(batch.tokens, batch.layout, decoder=self.targets.batch(numbers))

    def plan(self, budget: int, rng: np.random.Generator) -> list[Ids]:
        """All examples in random order, cut into batches of about `budget` tokens."""
        return drawing.plan(self.lengths, budget, rng)
