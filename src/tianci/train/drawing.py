"""Examples that lie end to end: in which order they are drawn, and where their tokens are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


def longest_first(lengths: Ids, numbers: Ids) -> Ids:
    """The order in which a batch holds its examples: attention likes runs of equal length."""
    return numbers[np.argsort(-lengths[numbers], kind="stable")]


def plan(lengths: Ids, budget: int, rng: np.random.Generator) -> list[Ids]:
    """All examples in random order, cut into batches of about `budget` tokens."""
    order = rng.permutation(len(lengths))
    if not len(order):
        return []
    total = np.cumsum(lengths[order])
    batches = max(1, round(int(total[-1]) / budget))
    # borders at equal shares of the tokens, so that no small rest remains
    borders = np.searchsorted(total, np.arange(1, batches) * (total[-1] / batches)) + 1
    return [part for part in np.split(order, borders) if len(part)]
