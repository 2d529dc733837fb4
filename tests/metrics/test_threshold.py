"""The threshold of the best F1: by hand, and equal to trying them one by one."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import f1_score

from tianci.metrics.threshold import GRID, best_threshold, best_thresholds


def test_by_hand() -> None:
    assert best_threshold([0.2, 0.6, 0.7], [0, 1, 1]) == (0.21, 1.0)
    # 0.9 alone: F1 2/3; down to 0.3: 3 positives, 2 right of 2: 0.8
    assert best_threshold([0.9, 0.5, 0.3, 0.1], [1, 0, 1, 0]) == (0.11, pytest.approx(0.8))
    # exactly at the threshold counts as positive
    assert best_threshold([0.5, 0.49], [1, 0]) == (0.5, 1.0)


def test_nothing_to_find() -> None:
    assert best_threshold([0.2, 0.9], [0, 0]) == (0.5, 0.0)
    assert best_threshold([0.001, 0.9], [1, 0]) == (0.5, 0.0)  # below all thresholds
    assert best_threshold([], []) == (0.5, 0.0)


def test_equals_trying_all() -> None:
    rng = np.random.default_rng(0)
    for _ in range(2):
        gold = (rng.random(80) < 0.3).astype(int)
        probability = np.clip(0.2 * gold + 0.8 * rng.random(80), 0, 1).round(3)
        scores = [f1_score(gold, probability >= threshold) for threshold in GRID]
        best = int(np.argmax(np.round(scores, 12)))
        assert best_threshold(probability, gold) == (GRID[best], pytest.approx(scores[best]))


def test_one_for_each_label() -> None:
    table = [[0.2, 0.9], [0.6, 0.8], [0.7, 0.1]]
    assert best_thresholds(table, [[0, 1], [1, 0], [1, 0]]) == [0.21, 0.81]
