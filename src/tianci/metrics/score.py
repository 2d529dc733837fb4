"""A score is a function of row weights: ones give its value, bootstrap counts give its spread.

N rows, D draws, C classes. Every metric exists once, as a function of weights (N, D), so that an
interval is always the interval of the very number that is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
Score = Callable[[FloatArray], dict[str, FloatArray]]  # weights (N, D) -> name: values (D,)


def value(score: Score, count: int) -> dict[str, float]:
    """The score of all rows, each counted once; what is undefined (not a number) is left out."""
    if count == 0:
        return {}
    found = {name: float(values[0]) for name, values in score(np.ones((count, 1))).items()}
    return {name: number for name, number in found.items() if not np.isnan(number)}


def of_rows(score: Callable[[IntArray], dict[str, float]]) -> Score:
    """The same score as a function of weights: drawn twice is given twice. Slow, always works."""

    def weighted(weights: FloatArray) -> dict[str, FloatArray]:
        rows = np.arange(len(weights))
        each = [score(np.repeat(rows, column.astype(np.int64))) for column in weights.T]
        names = dict.fromkeys(name for found in each for name in found)
        return {name: np.array([found.get(name, np.nan) for found in each]) for name in names}

    return weighted


def of_means(columns: Mapping[str, npt.ArrayLike]) -> Score:
    """Means of values that every row has on its own; rows with `nan` do not count."""
    table = {name: np.asarray(column, np.float64) for name, column in columns.items()}

    def weighted(weights: FloatArray) -> dict[str, FloatArray]:
        means = {}
        for name, column in table.items():
            there = ~np.isnan(column)
            total = np.where(there, column, 0.0) @ weights
            means[name] = divide(total, there.astype(np.float64) @ weights, np.nan)
        return means

    return weighted


def difference(first: Score, second: Score) -> Score:
    """How much more the first system scores than the second, on the same rows."""

    def weighted(weights: FloatArray) -> dict[str, FloatArray]:
        ours, theirs = first(weights), second(weights)
        return {name: ours[name] - theirs[name] for name in ours if name in theirs}

    return weighted


def divide(above: FloatArray, below: FloatArray, otherwise: float = 0.0) -> FloatArray:
    """above / below, and `otherwise` where that is a division by zero."""
    above, below = np.broadcast_arrays(above, below)
    result = np.full(below.shape, otherwise)
    np.divide(above, below, out=result, where=below != 0)
    return result


def f_score(right: FloatArray, predicted: FloatArray, gold: FloatArray) -> FloatArray:
    """F1 of counts: how many are right, were predicted, and should have been."""
    return divide(2 * right, predicted + gold)
