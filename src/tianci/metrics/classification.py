"""Scores of decisions among classes: one of them, or any number of them.

N rows, D draws, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tianci.metrics.ranking import area, average_precision, found, rank, rank_for_area
from tianci.metrics.score import FloatArray, IntArray, Score, divide, f_score, value


def decide(probabilities: npt.ArrayLike, threshold: float | None = None) -> IntArray:
    """The class of each row: the most probable one, or class 1 from its threshold on."""
    table = np.asarray(probabilities, np.float64)
    if threshold is None:
        return np.asarray(table.argmax(1), np.int64)
    return (table[:, 1] >= threshold).astype(np.int64)


def classes(
    gold: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    names: Sequence[str],
    threshold: float | None = None,
) -> dict[str, float]:
    """accuracy, macro_f1, weighted_f1, mcc, auc; of two classes also those of `names[1]`."""
    return value(class_score(gold, probabilities, names, threshold), len(np.asarray(gold)))


def class_score(
    gold: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    names: Sequence[str],
    threshold: float | None = None,
) -> Score:
    """What `classes` gives, as a function of row weights (for intervals)."""
    truth = np.asarray(gold, np.int64)
    table = np.asarray(probabilities, np.float64)
    if table.shape != (len(truth), len(names)):
        raise ValueError(f"{len(truth)} rows, {len(names)} classes, probabilities {table.shape}")
    decided = decide(table, threshold)
    halved = (table[:, -1] >= 0.5).astype(np.int64)
    # of two classes the positive one says all; of more, each stands against the rest
    wanted = [1] if len(names) == 2 else list(range(len(names)))
    orders = [rank_for_area(truth == one, table[:, one]) for one in wanted]
    ranking = rank(truth == 1, table[:, 1])

    def weighted(weights: FloatArray) -> dict[str, FloatArray]:
        scores = _decided(truth, decided, len(names), weights)
        scores["auc"] = _mean_of_defined(np.stack([area(order, weights) for order in orders]))
        if len(names) == 2:
            scores["average_precision"] = average_precision(*found(ranking, weights))
            scores |= _positive(truth, decided, weights)
            half = _positive(truth, halved, weights)
            scores["f1_at_half"] = half["f1"]
            scores["accuracy_at_half"] = _share(truth == halved, weights)
        return scores

    return weighted


def many(
    gold: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    names: Sequence[str],
    thresholds: Sequence[float] | float | None = None,
) -> dict[str, float]:
    """micro and macro F1, precision and recall, subset_accuracy, auc of a multi-label task."""
    return value(many_score(gold, probabilities, names, thresholds), len(np.asarray(gold)))


def many_score(
    gold: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    names: Sequence[str],
    thresholds: Sequence[float] | float | None = None,
) -> Score:
    """What `many` gives, as a function of row weights; without thresholds they are 0.5."""
    truth = np.asarray(gold, np.float64)
    table = np.asarray(probabilities, np.float64)
    if table.shape != (len(truth), len(names)) or truth.shape != table.shape:
        raise ValueError(f"{len(names)} classes, gold {truth.shape}, probabilities {table.shape}")
    decided = (table >= (0.5 if thresholds is None else np.asarray(thresholds))).astype(np.float64)
    orders = [rank_for_area(truth[:, one], table[:, one]) for one in range(len(names))]

    def weighted(weights: FloatArray) -> dict[str, FloatArray]:
        right = (truth * decided).T @ weights  # (C, D)
        predicted, there = decided.T @ weights, truth.T @ weights
        total = [counts.sum(0) for counts in (right, predicted, there)]
        areas = np.stack([area(order, weights) for order in orders])
        return {
            "micro_f1": f_score(*total),
            "macro_f1": f_score(right, predicted, there).mean(0),
            "micro_precision": divide(total[0], total[1]),
            "micro_recall": divide(total[0], total[2]),
            "subset_accuracy": _share((truth == decided).all(1), weights),
            "auc": _mean_of_defined(areas),
        }

    return weighted


def confusion(gold: npt.ArrayLike, predicted: npt.ArrayLike, count: int) -> IntArray:
    """How often each class (row) was taken for each class (column), (C, C)."""
    cells = np.asarray(gold, np.int64) * count + np.asarray(predicted, np.int64)
    return np.bincount(cells, minlength=count * count).reshape(count, count).astype(np.int64)


def class_table(
    gold: npt.ArrayLike, predicted: npt.ArrayLike, names: Sequence[str]
) -> list[dict[str, Any]]:
    """A row per class: name, precision, recall, f1, support; both inputs (N,) or both (N, C)."""
    truth, decided = np.asarray(gold, np.int64), np.asarray(predicted, np.int64)
    if truth.ndim == 1:
        known = np.arange(len(names))
        truth, decided = truth[:, None] == known, decided[:, None] == known
    right = np.asarray(truth * decided, np.float64).sum(0)
    there, taken = (np.asarray(each, np.float64).sum(0) for each in (truth, decided))
    columns = (divide(right, taken), divide(right, there), f_score(right, taken, there))
    return [
        {"name": name, "precision": p, "recall": r, "f1": f, "support": int(support)}
        for name, p, r, f, support in zip(
            names, *(column.tolist() for column in columns), there.tolist(), strict=True
        )
    ]


def _decided(
    truth: IntArray, decided: IntArray, count: int, weights: FloatArray
) -> dict[str, FloatArray]:
    """Scores that need the decisions only."""
    right = truth == decided
    there, taken = (_by_class(of, count, weights) for of in (truth, decided))
    hits = _by_class(truth, count, weights * right[:, None])
    each = f_score(hits, taken, there)
    seen = (there + taken) > 0
    total = weights.sum(0)
    spread = np.sqrt((total**2 - (there**2).sum(0)) * (total**2 - (taken**2).sum(0)))
    return {
        "accuracy": divide(hits.sum(0), total, np.nan),
        "macro_f1": divide(each.sum(0), seen.sum(0).astype(np.float64), np.nan),
        "weighted_f1": divide((each * there).sum(0), total, np.nan),
        "mcc": divide(hits.sum(0) * total - (there * taken).sum(0), spread),
    }


def _positive(truth: IntArray, decided: IntArray, weights: FloatArray) -> dict[str, FloatArray]:
    """precision, recall and f1 of class 1."""
    right, taken, there = (
        each.astype(np.float64) @ weights for each in (truth * decided, decided, truth)
    )
    return {
        "precision": divide(right, taken),
        "recall": divide(right, there),
        "f1": f_score(right, taken, there),
    }


def _by_class(of: IntArray, count: int, weights: FloatArray) -> FloatArray:
    """The weight of each class, (C, D): the work of one addition per weight, not of C."""
    sums = np.zeros((count, weights.shape[1]))
    for one in np.unique(of).tolist():
        sums[one] = weights[of == one].sum(0)
    return sums


def _share(right: npt.NDArray[np.bool_], weights: FloatArray) -> FloatArray:
    return divide(right.astype(np.float64) @ weights, weights.sum(0), np.nan)


def _mean_of_defined(values: FloatArray) -> FloatArray:
    """The mean (D,) over classes (C, D) of those that are numbers, or `nan`."""
    defined = ~np.isnan(values)
    total = np.where(defined, values, 0.0).sum(0)
    return divide(total, defined.sum(0).astype(np.float64), np.nan)
