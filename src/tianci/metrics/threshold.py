"""The probability from which on a row counts as positive: searched for the best F1."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tianci.metrics.score import f_score

GRID = np.arange(1, 100) / 100  # 0.01 ... 0.99


def best_threshold(probabilities: npt.ArrayLike, gold: npt.ArrayLike) -> tuple[float, float]:
    """The threshold of the best F1 (the lowest of equals) and that F1; 0.5 where all F1 are 0."""
    probability = np.asarray(probabilities, np.float64)
    positive = np.asarray(gold) == 1
    predicted = _above(probability)
    right = _above(probability[positive])
    scores = f_score(right, predicted, np.full(len(GRID), float(positive.sum())))
    best = int(scores.argmax())
    return (float(GRID[best]), float(scores[best])) if scores[best] > 0 else (0.5, 0.0)


def best_thresholds(probabilities: npt.ArrayLike, gold: npt.ArrayLike) -> list[float]:
    """The best threshold of each column of a multi-label task, (N, C)."""
    columns = zip(np.asarray(probabilities).T, np.asarray(gold).T, strict=True)
    return [best_threshold(probability, truth)[0] for probability, truth in columns]


def _above(probability: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """How many are at or above each threshold of the grid."""
    below = np.searchsorted(np.sort(probability), GRID, side="left")
    return (len(probability) - below).astype(np.float64)
