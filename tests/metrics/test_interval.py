"""Bootstrap intervals: as wide as theory says, the same by both ways, quick."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tianci.metrics.classification import class_score, classes
from tianci.metrics.interval import bootstrap, bootstrap_weighted, paired
from tianci.metrics.score import FloatArray, IntArray, of_means, of_rows, value


def rows(count: int, seed: int, shift: float = 0.3) -> tuple[IntArray, FloatArray]:
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 2, count)
    positive = np.clip(shift * gold + (1 - shift) * rng.random(count), 0, 1)
    return gold, np.stack([1 - positive, positive], 1)


def test_as_wide_as_the_normal_distribution_says() -> None:
    right = np.zeros(1000)
    right[:800] = 1.0
    low, high = bootstrap_weighted(of_means({"accuracy": right}), 1000)["accuracy"]
    width = 1.96 * np.sqrt(0.8 * 0.2 / 1000)
    assert (low, high) == pytest.approx((0.8 - width, 0.8 + width), abs=0.004)
    narrow = bootstrap_weighted(of_means({"accuracy": right}), 1000, level=0.5)["accuracy"]
    assert low < narrow[0] < narrow[1] < high
    assert narrow[1] - narrow[0] == pytest.approx(2 * 0.674 * width / 1.96, abs=0.004)


def test_both_ways_give_the_same() -> None:
    gold, table = rows(120, 0)
    slow = bootstrap(
        lambda at: classes(gold[at], table[at], ["a", "b"], 0.4), 120, draws=50, seed=3
    )
    fast = bootstrap_weighted(class_score(gold, table, ["a", "b"], 0.4), 120, draws=50, seed=3)
    assert slow.keys() == fast.keys() and len(fast) == 11
    for name, ends in fast.items():
        assert slow[name] == pytest.approx(ends, abs=1e-12), name
    other = bootstrap_weighted(class_score(gold, table, ["a", "b"], 0.4), 120, draws=50, seed=4)
    assert other != fast


def test_draws_without_a_value_do_not_count() -> None:
    gold = np.array([1, 0, 0, 0])  # about a third of the draws have no positive row
    table = np.array([[0.1, 0.9], [0.8, 0.2], [0.7, 0.3], [0.9, 0.1]])
    found = bootstrap_weighted(class_score(gold, table, ["a", "b"]), 4, draws=200)
    assert found["auc"] == (1.0, 1.0)
    assert bootstrap_weighted(class_score(gold, table, ["a", "b"]), 0) == {}
    never = bootstrap_weighted(of_means({"x": [np.nan, np.nan]}), 2, draws=10)
    assert never == {}


def test_paired_sees_what_two_intervals_do_not() -> None:
    gold, worse = rows(1000, 1)
    better = worse.copy()
    wrong = np.flatnonzero(worse.argmax(1) != gold)[:20]
    better[wrong] = worse[wrong][:, ::-1]  # 20 rows repaired, all else the same
    first, second = (class_score(gold, table, ["a", "b"]) for table in (better, worse))
    low, high = paired(first, second, 1000)["accuracy"]
    assert 0 < low < 0.02 < high < 0.04
    alone = [bootstrap_weighted(score, 1000)["accuracy"] for score in (first, second)]
    assert alone[0][0] < alone[1][1]
    assert paired(first, first, 1000, draws=20)["auc"] == (0.0, 0.0)


def test_rows_with_nan_do_not_count() -> None:
    found = value(of_means({"a": [1.0, np.nan, 0.0, 1.0], "b": [np.nan] * 4}), 4)
    assert found == {"a": pytest.approx(2 / 3)}
    rowwise = of_rows(lambda at: {"count": float(len(at)), "first": float(at[0])})
    assert value(rowwise, 5) == {"count": 5.0, "first": 0.0}


def test_eight_thousand_rows_are_quick() -> None:
    gold, table = rows(8000, 2)
    score = class_score(gold, table, ["a", "b"], 0.5)
    began = time.process_time()
    found = bootstrap_weighted(score, 8000)
    assert time.process_time() - began < 2.0  # 0.7 s on a busy machine
    low, high = found["auc"]
    assert low < value(score, 8000)["auc"] < high and 0.003 < high - low < 0.03
