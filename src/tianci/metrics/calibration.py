"""Do probabilities mean what they say? Temperature, expected calibration error, reliability.

Three shapes everywhere: (N, C) with gold (N,) is one of C classes, judged by the most probable one;
(N,) with gold (N,) is yes or no; (N, C) with gold (N, C) is yes or no, C times.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tianci.metrics.score import FloatArray

COLDEST, HOTTEST = 0.05, 20.0


class Bin(NamedTuple):
    """Rows of similar confidence: how sure they were, how often right, how many."""

    confidence: float
    accuracy: float
    rows: int


def fit_temperature(logits: npt.ArrayLike, gold: npt.ArrayLike) -> float:
    """The number to divide logits by so that their negative log likelihood is least."""
    from scipy.optimize import minimize_scalar

    table, truth = np.asarray(logits, np.float64), np.asarray(gold)
    if len(table) == 0:
        return 1.0

    def loss(log_temperature: float) -> float:
        scaled = table / np.exp(log_temperature)
        if table.shape == truth.shape:  # log(1 + e^x) - x where the answer is yes
            return float(np.mean(np.logaddexp(0.0, scaled) - scaled * truth))
        return float(np.mean(_log_sum(scaled) - scaled[np.arange(len(truth)), truth]))

    # on a log scale halving and doubling are equally far
    best = minimize_scalar(loss, bounds=(np.log(COLDEST), np.log(HOTTEST)), method="bounded")
    return float(np.exp(best.x))


def expected_calibration_error(
    probabilities: npt.ArrayLike, gold: npt.ArrayLike, bins: int = 15
) -> float:
    """The mean distance of confidence and accuracy over bins of equal width."""
    found = reliability(probabilities, gold, bins)
    total = sum(one.rows for one in found)
    return sum(one.rows * abs(one.confidence - one.accuracy) for one in found) / max(total, 1)


def reliability(probabilities: npt.ArrayLike, gold: npt.ArrayLike, bins: int = 15) -> list[Bin]:
    """The bins with rows in them, from the least confident on; bins are open below."""
    confidence, right = _confidence(np.asarray(probabilities, np.float64), np.asarray(gold))
    place = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
    count, sure, good = (np.bincount(place, weights, bins) for weights in (None, confidence, right))
    return [
        Bin(float(sure[at] / count[at]), float(good[at] / count[at]), int(count[at]))
        for at in np.flatnonzero(count).tolist()
    ]


def _confidence(table: FloatArray, truth: npt.NDArray[np.generic]) -> tuple[FloatArray, FloatArray]:
    if table.shape == truth.shape:
        return table.ravel(), truth.ravel().astype(np.float64)
    return table.max(1), (table.argmax(1) == truth).astype(np.float64)


def _log_sum(table: FloatArray) -> FloatArray:
    top = table.max(1)
    total: FloatArray = top + np.log(np.exp(table - top[:, None]).sum(1))
    return total
