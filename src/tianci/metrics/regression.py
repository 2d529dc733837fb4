"""Scores of numbers: pearson, spearman, mae, rmse."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tianci.metrics.score import FloatArray, IntArray, Score, divide, value


def numbers(gold: npt.ArrayLike, predicted: npt.ArrayLike) -> dict[str, float]:
    """pearson and spearman (0 where either side is constant), mae, rmse."""
    return value(number_score(gold, predicted), len(np.asarray(gold)))


def number_score(gold: npt.ArrayLike, predicted: npt.ArrayLike) -> Score:
    """What `numbers` gives, as a function of row weights (for intervals)."""
    truth, guess = np.asarray(gold, np.float64), np.asarray(predicted, np.float64)
    if truth.shape != guess.shape or truth.ndim != 1:
        raise ValueError(f"gold {truth.shape}, predicted {guess.shape}")
    runs = _runs(truth), _runs(guess)
    error = guess - truth

    def weighted(weights: FloatArray) -> dict[str, FloatArray]:
        total = weights.sum(0)
        return {
            "pearson": _correlation(truth[:, None], guess[:, None], weights),
            "spearman": _correlation(_ranks(runs[0], weights), _ranks(runs[1], weights), weights),
            "mae": divide(np.abs(error) @ weights, total, np.nan),
            "rmse": np.sqrt(divide(error**2 @ weights, total, np.nan)),
        }

    return weighted


def _runs(values: FloatArray) -> IntArray:
    """For each row the number of its value among the distinct values, from the lowest on."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _ranks(runs: IntArray, weights: FloatArray) -> FloatArray:
    """Mean ranks (N, D) in samples where each row stands as often as its weight says."""
    order = np.argsort(runs, kind="stable")
    starts = np.flatnonzero(np.diff(runs[order], prepend=-1))
    each = np.add.reduceat(weights[order], starts, 0)
    middle: FloatArray = np.cumsum(each, 0) - (each - 1) / 2
    return middle[runs]


def _correlation(x: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """Pearson's r of columns under weights; 0 where one side does not vary."""
    total = weights.sum(0)
    # what rounding leaves of a constant is no spread
    least = [total * (1e-12 * np.abs(side).max(initial=0.0)) ** 2 for side in (x, y)]
    x = x - (x * weights).sum(0) / total
    y = y - (y * weights).sum(0) / total
    both = (x * y * weights).sum(0)
    of_x, of_y = (x * x * weights).sum(0), (y * y * weights).sum(0)
    spread = np.where((of_x > least[0]) & (of_y > least[1]), np.sqrt(of_x * of_y), 0.0)
    return np.clip(divide(both, spread), -1.0, 1.0)
