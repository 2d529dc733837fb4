"""Scores of an order: area under ROC, average precision, and the curves themselves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tianci.metrics.score import FloatArray, IntArray, divide


class Ranking(NamedTuple):
    """Rows from the highest probability down, and where runs of equal ones end."""

    order: IntArray
    ends: IntArray
    positive: FloatArray  # gold in that order, (N, 1)


class Area(NamedTuple):
    """What the area under ROC needs: rows from the lowest probability up, cut where a run of equal
    ones with a positive among them begins or ends."""

    order: IntArray
    cuts: IntArray
    runs: IntArray  # which of the pieces are those runs, (G,)
    positives: IntArray  # the positive rows, in that order
    firsts: IntArray  # where in `positives` each run begins, (G,)


class Curve(NamedTuple):
    """Points to draw, and the threshold at which each is reached."""

    x: list[float]
    y: list[float]
    threshold: list[float]


def rank(gold: npt.ArrayLike, probability: npt.ArrayLike) -> Ranking:
    """The order of rows that all scores here need; gold is 1 where the row is positive."""
    probability = np.asarray(probability, np.float64)
    order = np.argsort(-probability, kind="stable")
    ordered = probability[order]
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)) if len(order) else order
    return Ranking(order, ends, np.asarray(gold, np.float64)[order, None])


def rank_for_area(gold: npt.ArrayLike, probability: npt.ArrayLike) -> Area:
    """The order for `area`; where positives are few, as in one class of many, so are cuts."""
    probability, positive = np.asarray(probability, np.float64), np.asarray(gold, bool)
    order = np.argsort(probability, kind="stable")
    ordered = probability[order]
    positives = order[positive[order]]
    values, firsts = np.unique(probability[positives], return_index=True)
    starts, ends = (np.searchsorted(ordered, values, side) for side in ("left", "right"))
    cuts = np.unique(np.concatenate([[0], starts, ends[ends < len(order)]]))
    return Area(order, cuts, np.searchsorted(cuts, starts), positives, firsts)


def area(of: Area, weights: FloatArray) -> FloatArray:
    """The area under the ROC curve, ties counted half; `nan` where only one class is there."""
    pieces = np.add.reduceat(weights[of.order], of.cuts, 0)
    middle = np.cumsum(pieces, 0) - pieces / 2  # weight below, and half of the equals
    mine = np.add.reduceat(weights[of.positives], of.firsts, 0)
    positive = mine.sum(0)
    # positives stand above each other too, in positive² / 2 of the pairs
    above = (mine * middle[of.runs]).sum(0) - positive**2 / 2
    return divide(above, positive * (pieces.sum(0) - positive), np.nan)


def found(ranking: Ranking, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """True and false positives (K, D) when everything down to each distinct probability counts."""
    ordered = weights[ranking.order]
    true = np.cumsum(ordered * ranking.positive, 0)[ranking.ends]
    return true, np.cumsum(ordered, 0)[ranking.ends] - true


def average_precision(true: FloatArray, false: FloatArray) -> FloatArray:
    """Precision at each step of recall, weighted by the step; `nan` without positives."""
    steps = np.diff(true, axis=0, prepend=0.0)
    return divide((steps * divide(true, true + false)).sum(0), true[-1], np.nan)


def curves(gold: npt.ArrayLike, probability: npt.ArrayLike, points: int = 200) -> dict[str, Curve]:
    """`precision_recall` and `roc`, thinned for drawing; each begins where nothing is positive."""
    probability = np.asarray(probability, np.float64)
    if len(probability) == 0:
        return {name: Curve([], [], []) for name in ("precision_recall", "roc")}
    ranking = rank(gold, probability)
    true, false = (counts[:, 0] for counts in found(ranking, np.ones((len(probability), 1))))
    threshold = probability[ranking.order][ranking.ends]
    threshold = np.insert(threshold, 0, np.nextafter(threshold[0], np.inf))
    precision = np.insert(true / (true + false), 0, 1.0)
    recall = np.insert(divide(true, true[-1:]), 0, 0.0)
    fall_out = np.insert(divide(false, false[-1:]), 0, 0.0)
    return {
        "precision_recall": _thin(recall, precision, threshold, points),
        "roc": _thin(fall_out, recall, threshold, points),
    }


def _thin(x: FloatArray, y: FloatArray, threshold: FloatArray, points: int) -> Curve:
    """At most so many points, evenly spaced along the curve, first and last among them."""
    if len(x) > points:
        length = np.cumsum(np.abs(np.diff(x, prepend=x[0])) + np.abs(np.diff(y, prepend=y[0])))
        kept = np.unique(np.searchsorted(length, np.linspace(0, length[-1], points - 1)))
        # equal lengths mean the same point; the last row carries the lowest threshold
        kept = np.union1d(kept, [0, len(x) - 1])
        x, y, threshold = x[kept], y[kept], threshold[kept]
    return Curve(x.tolist(), y.tolist(), threshold.tolist())
