"""Curves: by hand, thinned without losing their shape."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sk

from tianci.metrics.ranking import curves


def test_points_by_hand() -> None:
    found = curves([1, 0, 1, 0], [0.9, 0.5, 0.5, 0.2])
    roc, pr = found["roc"], found["precision_recall"]
    # the two at 0.5 come together
    assert roc.x == [0.0, 0.0, 0.5, 1.0] and roc.y == [0.0, 0.5, 1.0, 1.0]
    assert pr.x == roc.y and pr.y == [1.0, 1.0, 2 / 3, 0.5]
    assert roc.threshold[1:] == [0.9, 0.5, 0.2] and roc.threshold[0] > 0.9
    assert np.isfinite(roc.threshold).all()  # JSON has no infinity


def test_equal_scikit_learn_before_thinning() -> None:
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, 150)
    probability = (0.3 * gold + 0.7 * rng.random(150)).round(2)
    found = curves(gold, probability)
    x, y, threshold = sk.roc_curve(gold, probability, drop_intermediate=False)
    assert found["roc"].x == pytest.approx(x.tolist())
    assert found["roc"].y == pytest.approx(y.tolist())
    assert found["roc"].threshold[1:] == threshold[1:].tolist()
    precision, recall, _ = sk.precision_recall_curve(gold, probability)
    assert found["precision_recall"].x == pytest.approx(recall[::-1].tolist())
    assert found["precision_recall"].y == pytest.approx(precision[::-1].tolist())


def test_thinned_curves_keep_their_area() -> None:
    rng = np.random.default_rng(1)
    gold = rng.integers(0, 2, 20_000)
    probability = 0.5 * gold + rng.random(20_000)
    found = curves(gold, probability)
    assert all(100 < len(curve.x) <= 200 for curve in found.values())
    roc = found["roc"]
    area = np.trapezoid(roc.y, roc.x)
    assert area == pytest.approx(sk.roc_auc_score(gold, probability), abs=1e-3)
    assert (roc.x[0], roc.y[0], roc.x[-1], roc.y[-1]) == (0.0, 0.0, 1.0, 1.0)
    assert roc.threshold[-1] == probability.min()


def test_one_class_and_no_rows() -> None:
    assert curves([1, 1], [0.3, 0.4])["roc"].x == [0.0, 0.0, 0.0]
    assert curves([], [])["roc"].x == []
