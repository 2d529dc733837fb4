"""Scores of parts of speech, by hand and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

from tianci.metrics.score import value
from tianci.metrics.tags import tag_score

GOLD = [["N", "V", "N"], ["D"], ["N", "V"]]
SAID = [["N", "N", "N"], ["D"], ["X", "V"]]


def test_by_hand() -> None:
    found = value(tag_score(GOLD, SAID), 3)
    # F1 of N: 2 right of 3 said and 3 there; of V: 1 of 1 and 2; of D: 1; of X, which nobody is: 0
    assert found == {
        "accuracy": pytest.approx(4 / 6),
        "macro_f1": pytest.approx((2 / 3 + 2 / 3 + 1 + 0) / 4),
    }


def test_weights_count_sentences() -> None:
    score = tag_score(GOLD, SAID)(np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 1.0]]))
    assert score["accuracy"].tolist() == pytest.approx([1.0, 3 / 5])
    assert score["macro_f1"].tolist() == pytest.approx([1.0, (2 / 3 + 2 / 3 + 0) / 3])


def test_equals_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    r = np.random.default_rng(0)
    sizes = r.integers(1, 9, 50).tolist()
    gold, said = ([r.choice(list("NVDAX"), n).tolist() for n in sizes] for _ in range(2))
    flat = [[tag for tags in side for tag in tags] for side in (gold, said)]
    found = value(tag_score(gold, said), 50)
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(*flat))
    assert found["macro_f1"] == pytest.approx(metrics.f1_score(*flat, average="macro"))
