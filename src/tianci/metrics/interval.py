"""How sure is a score? Percentile bootstrap over rows, all draws at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tianci.metrics.score import FloatArray, IntArray, Score, difference, of_rows

Intervals = dict[str, tuple[float, float]]
_CELLS = 1 << 20  # weights held at once: 8 MB, which stays near the processor


def bootstrap(
    score: Callable[[IntArray], dict[str, float]],
    count: int,
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Intervals:
    """The interval of each score of a function of row numbers; one call per draw."""
    return bootstrap_weighted(of_rows(score), count, draws, seed, level)


def bootstrap_weighted(
    score: Score, count: int, draws: int = 1000, seed: int = 0, level: float = 0.95
) -> Intervals:
    """The interval of each score of a function of row weights; draws where it is undefined do
    not count."""
    if count == 0:
        return {}
    parts: dict[str, list[FloatArray]] = {}
    for weights in _counts(count, draws, seed):
        for name, values in score(weights).items():
            parts.setdefault(name, []).append(values)
    rest = (1 - level) / 2
    found: Intervals = {}
    for name, chunks in parts.items():
        joined = np.concatenate(chunks)
        defined = joined[~np.isnan(joined)]
        if len(defined):
            low, high = np.quantile(defined, [rest, 1 - rest]).tolist()
            found[name] = (low, high)
    return found


def paired(
    first: Score,
    second: Score,
    count: int,
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Intervals:
    """The interval of first minus second on the same rows; without 0 in it, the two differ."""
    return bootstrap_weighted(difference(first, second), count, draws, seed, level)


def _counts(count: int, draws: int, seed: int) -> Iterator[FloatArray]:
    """How often each row was drawn, (N, some draws) at a time; the same for the same seed."""
    rng = np.random.default_rng(seed)
    some = max(1, _CELLS // count)
    for start in range(0, draws, some):
        width = min(some, draws - start)
        rows = rng.integers(0, count, (width, count)) + np.arange(width)[:, None] * count
        drawn = np.bincount(rows.ravel(), minlength=width * count).reshape(width, count)
        yield np.ascontiguousarray(drawn.T, np.float64)
