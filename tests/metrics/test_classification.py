"""Scores of classes: by hand, and equal to scikit-learn's on random and on weighted rows."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from sklearn import metrics as sk

from tianci.metrics.classification import (
    class_score,
    class_table,
    classes,
    confusion,
    decide,
    many,
    many_score,
)
from tianci.metrics.score import FloatArray, IntArray


def random_rows(rows: int, count: int, seed: int) -> tuple[IntArray, FloatArray]:
    """Gold and probabilities with something learned and many ties."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, count, rows)
    table = rng.random((rows, count)).round(1) + 0.1
    table[np.arange(rows), gold] += 0.3
    return gold, table / table.sum(1, keepdims=True)


def test_two_classes_by_hand() -> None:
    gold, positive = [0, 0, 1, 1, 1], np.array([0.1, 0.6, 0.4, 0.7, 0.9])
    table = np.stack([1 - positive, positive], 1)
    found = classes(gold, table, ["no", "yes"], threshold=0.3)
    # at 0.3: 1 is right of class 0, 3 of class 1, one false alarm
    assert found["accuracy"] == 0.8 and found["precision"] == 0.75 and found["recall"] == 1.0
    assert found["f1"] == pytest.approx(6 / 7)
    assert found["macro_f1"] == pytest.approx((2 / 3 + 6 / 7) / 2)
    assert found["weighted_f1"] == pytest.approx((2 * 2 / 3 + 3 * 6 / 7) / 5)
    # at 0.5: true 0.7, 0.9; false 0.6; missed 0.4
    assert found["f1_at_half"] == pytest.approx(2 / 3) and found["accuracy_at_half"] == 0.6
    # of 6 pairs only 0.6 > 0.4 is the wrong way round
    assert found["auc"] == pytest.approx(5 / 6)
    assert found["average_precision"] == pytest.approx((1 + 1 + 3 / 4) / 3)
    # (tp tn - fp fn) / sqrt(...) = (3 * 1 - 1 * 0) / sqrt(4 * 3 * 2 * 1)
    assert found["mcc"] == pytest.approx(3 / math.sqrt(24))
    # without a threshold the decision is the most probable class
    assert classes(gold, table, ["no", "yes"])["accuracy"] == 0.6


@pytest.mark.parametrize("threshold", [None, 0.35])
def test_two_classes_equal_scikit_learn(threshold: float | None) -> None:
    gold, table = random_rows(300, 2, 1)
    weights = np.random.default_rng(2).integers(0, 4, 300).astype(float)
    for column in (np.ones(300), weights):
        found = class_score(gold, table, ["a", "b"], threshold)(column[:, None])
        guess, kept = decide(table, threshold), {"sample_weight": column}
        half = (table[:, 1] >= 0.5).astype(int)
        expected = {
            "accuracy": sk.accuracy_score(gold, guess, **kept),
            "macro_f1": sk.f1_score(gold, guess, average="macro", **kept),
            "weighted_f1": sk.f1_score(gold, guess, average="weighted", **kept),
            "mcc": sk.matthews_corrcoef(gold, guess, **kept),
            "auc": sk.roc_auc_score(gold, table[:, 1], **kept),
            "average_precision": sk.average_precision_score(gold, table[:, 1], **kept),
            "precision": sk.precision_score(gold, guess, **kept),
            "recall": sk.recall_score(gold, guess, **kept),
            "f1": sk.f1_score(gold, guess, **kept),
            "f1_at_half": sk.f1_score(gold, half, **kept),
            "accuracy_at_half": sk.accuracy_score(gold, half, **kept),
        }
        assert found.keys() == expected.keys()
        for name, number in expected.items():
            assert found[name][0] == pytest.approx(number, abs=1e-12), name


def test_five_classes_equal_scikit_learn() -> None:
    gold, table = random_rows(400, 5, 3)
    found = classes(gold, table, list("abcde"))
    guess = table.argmax(1)
    assert found == pytest.approx(
        {
            "accuracy": sk.accuracy_score(gold, guess),
            "macro_f1": sk.f1_score(gold, guess, average="macro"),
            "weighted_f1": sk.f1_score(gold, guess, average="weighted"),
            "mcc": sk.matthews_corrcoef(gold, guess),
            "auc": sk.roc_auc_score(gold, table, average="macro", multi_class="ovr"),
        },
        abs=1e-12,
    )


def test_what_is_undefined_is_left_out_and_nothing_warns() -> None:
    one_sided = np.array([[0.8, 0.2], [0.6, 0.4]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = classes([0, 0], one_sided, ["a", "b"])
        assert "auc" not in found and "average_precision" not in found
        assert found["accuracy"] == 1.0 and found["f1"] == 0.0 and found["mcc"] == 0.0
        # of three classes the third never occurs: the area is the mean of the other two
        three = classes(
            [0, 1, 1], np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.5, 0.4, 0.1]]), "abc"
        )
        assert three["auc"] == 1.0
        assert three["macro_f1"] == pytest.approx(2 / 3)  # of the classes that occur
        assert classes([], np.zeros((0, 2)), ["a", "b"]) == {}
    with pytest.raises(ValueError, match="3 classes"):
        classes([0, 0], one_sided, "abc")


def test_many_by_hand() -> None:
    gold = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0]])
    table = np.array([[0.9, 0.2, 0.1], [0.6, 0.4, 0.7], [0.1, 0.3, 0.2]])
    found = many(gold, table, list("abc"))
    # right: two of a; missed: one b; false: one c; the first and the last row are right in all
    assert found["micro_f1"] == pytest.approx(4 / 6)
    assert found["micro_precision"] == found["micro_recall"] == pytest.approx(2 / 3)
    assert found["macro_f1"] == pytest.approx(1 / 3)
    assert found["subset_accuracy"] == pytest.approx(2 / 3)
    assert found["auc"] == 1.0  # of a and b; c is never there
    own = many(gold, table, list("abc"), [0.5, 0.35, 0.8])
    assert own["micro_f1"] == 1.0 and own["subset_accuracy"] == 1.0


def test_many_equals_scikit_learn() -> None:
    rng = np.random.default_rng(4)
    gold = (rng.random((200, 4)) < 0.3).astype(int)
    table = np.clip(gold * 0.4 + rng.random((200, 4)) * 0.6, 0, 1).round(2)
    found = many(gold, table, list("abcd"), 0.4)
    guess = (table >= 0.4).astype(int)
    assert found == pytest.approx(
        {
            "micro_f1": sk.f1_score(gold, guess, average="micro"),
            "macro_f1": sk.f1_score(gold, guess, average="macro"),
            "micro_precision": sk.precision_score(gold, guess, average="micro"),
            "micro_recall": sk.recall_score(gold, guess, average="micro"),
            "subset_accuracy": sk.accuracy_score(gold, guess),
            "auc": sk.roc_auc_score(gold, table, average="macro"),
        },
        abs=1e-12,
    )
    two = many_score(gold, table, list("abcd"), 0.4)(np.ones((200, 2)))
    assert two["micro_f1"].tolist() == [found["micro_f1"]] * 2


def test_confusion_and_table() -> None:
    gold, guess = [0, 0, 1, 2, 2, 2], [0, 1, 1, 2, 2, 0]
    assert confusion(gold, guess, 4).tolist() == [[1, 1, 0, 0], [0, 1, 0, 0], [1, 0, 2, 0], [0] * 4]
    rows = class_table(gold, guess, ["a", "b", "c", "d"])
    assert rows[2] == {
        "name": "c", "precision": 1.0, "recall": 2 / 3, "f1": 0.8, "support": 3,
    }  # fmt: skip
    assert rows[0]["precision"] == 0.5 and rows[1]["recall"] == 1.0
    assert rows[3] == {"name": "d", "precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0}
    marks = class_table([[1, 0], [1, 1]], [[1, 1], [0, 1]], ["a", "b"])
    assert [row["f1"] for row in marks] == pytest.approx([2 / 3, 2 / 3])
