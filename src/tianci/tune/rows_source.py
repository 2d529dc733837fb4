"""The rows of a task as batches for the loop, in a repeatable order, from any position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tianci.batch import Batch
from tianci.goals.tasks.base import Example, Task
from tianci.train.examples import Position

Ids = NDArray[np.int64]
POOL = 16  # batches that are sorted by length together


class RowsSource:
    """Each epoch all examples once, in an order that depends on (seed, epoch) only.

    Examples of similar length meet in a batch: 16 batches are drawn at random, sorted by length and
    cut; the batches then come in random order. Attention is faster on runs of equal length.
    """

    def __init__(self, task: Task, examples: Sequence[Example], batch_rows: int, seed: int):
        self.task, self.examples = task, examples
        self.batch_rows, self.seed = batch_rows, seed

    @cached_property
    def lengths(self) -> Ids:
        return np.array([example.length for example in self.examples], np.int64)

    @cached_property
    def batches_of_epoch(self) -> int:
        return max(1, -(-len(self.examples) // self.batch_rows))

    def batch(self, numbers: Ids) -> Batch:
        return self.task.collate([self.examples[n] for n in numbers.tolist()])

    def draws(self, position: Position) -> Iterator[tuple[RowsSource, Ids, Position]]:
        epoch, used = position.epoch, position.batch
        while True:
            plan = self.plan(epoch)
            for number in range(used, len(plan)):
                here = Position(epoch, 0, number + 1)
                if number + 1 == len(plan):
                    here = Position(epoch + 1, 0, 0)
                yield self, plan[number], here
            epoch, used = epoch + 1, 0

    def plan(self, epoch: int) -> list[Ids]:
        """The batches of an epoch."""
        rng = np.random.default_rng([self.seed, epoch, 4])
        order = rng.permutation(len(self.examples))
        batches: list[Ids] = []
        for pool in np.array_split(order, max(1, -(-len(order) // (POOL * self.batch_rows)))):
            ranked = pool[np.argsort(-self.lengths[pool], kind="stable")]
            batches += np.array_split(ranked, max(1, -(-len(pool) // self.batch_rows)))
        return [batches[i] for i in rng.permutation(len(batches)).tolist()]

    def done(self, position: Position) -> float:
        # batches of an epoch may be a few more than rows / size, never fewer
        return position.epoch + position.batch / len(self.plan_sizes)

    @cached_property
    def plan_sizes(self) -> list[int]:
        return [len(batch) for batch in self.plan(0)]
