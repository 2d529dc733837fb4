"""The bag of words: learns what words say, for every kind of label, and its known figure."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from tianci.errors import UserError
from tianci.evaluate.baseline import fit_baseline
from tianci.metrics.classification import classes
from tianci.metrics.regression import numbers

GOOD, BAD = ["good", "nice", "lovely"], ["bad", "poor", "awful"]


def reviews(count: int, seed: int) -> tuple[list[str], list[int]]:
    """Texts with one word that tells the label, and noise."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, count).tolist()
    noise = [f"w{rng.integers(30)} w{rng.integers(30)}" for _ in labels]
    told = [(GOOD if label else BAD)[rng.integers(3)] for label in labels]
    return [f"{a} {b}" for a, b in zip(noise, told, strict=True)], labels


def test_two_classes() -> None:
    texts, labels = reviews(200, 0)
    baseline = fit_baseline(texts, labels)
    new, gold = reviews(100, 1)
    found = baseline.probabilities(new)
    assert found.shape == (100, 2) and np.allclose(found.sum(1), 1)
    assert classes(gold, found, ["bad", "good"])["accuracy"] == 1.0
    again = fit_baseline(texts, labels).probabilities(new)
    assert (again == found).all()
    mixed = fit_baseline(texts, np.random.default_rng(2).permutation(labels)).probabilities(new)
    assert classes(gold, mixed, ["bad", "good"])["accuracy"] < 0.8  # labels are what it learns from


def test_classes_that_have_no_rows() -> None:
    texts = ["red apple", "green pear", "red cherry", "green lime"] * 5
    found = fit_baseline(texts, [0, 2, 0, 2] * 5, count=4).probabilities(["red", "green"])
    assert found.shape == (2, 4) and found.argmax(1).tolist() == [0, 2]
    assert (found[:, [1, 3]] == 0).all()
    alone = fit_baseline(texts[:2], [1, 1], count=3).probabilities(["anything"])
    assert alone.tolist() == [[0.0, 1.0, 0.0]]


def test_more_classes_and_chinese() -> None:
    texts = ["今天下雨", "股票上涨", "球队获胜", "明天下雪", "基金下跌", "球员受伤"] * 4
    found = fit_baseline(texts, [0, 1, 2] * 8).probabilities(["昨天下雨", "股票下跌", "球队受伤"])
    assert found.argmax(1).tolist() == [0, 1, 2] and np.allclose(found.sum(1), 1)


def test_many_labels() -> None:
    texts = ["cat", "dog", "cat dog", "bird"] * 10
    labels = [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0]] * 10
    found = fit_baseline(texts, labels, kind="many").probabilities(["dog cat", "bird", "cat"])
    assert (found >= 0.5).astype(int).tolist() == [[1, 1, 0], [0, 0, 0], [1, 0, 0]]
    assert (found[:, 2] == 0).all()  # never there in training


def test_pairs_are_compared() -> None:
    rng = np.random.default_rng(0)
    firsts = [f"{a} {b}" for a, b in rng.integers(0, 10**6, (400, 2)).tolist()]
    same = rng.integers(0, 2, 400)
    seconds = [a if one else b for a, b, one in zip(firsts, firsts[::-1], same, strict=True)]
    baseline = fit_baseline(firsts[:300], same[:300], seconds[:300])
    found = baseline.probabilities(firsts[300:], seconds[300:])
    # no number was seen in training: only the overlap can tell
    assert classes(same[300:], found, ["no", "yes"])["accuracy"] > 0.95


def test_numbers() -> None:
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2, (200, 5))
    texts = [" ".join(w for w, on in zip("abcde", row, strict=True) if on) or "-" for row in words]
    values = (words * [5, 4, 3, 2, 1]).sum(1)
    found = fit_baseline(texts[:150], values[:150], kind="number").values(texts[150:])
    assert found.shape == (50,) and numbers(values[150:], found)["pearson"] > 0.9


def test_hardly_any_text() -> None:
    found = fit_baseline(["", "", ""], [0, 1, 1]).probabilities(["", "x"])
    assert found.shape == (2, 2) and np.isfinite(found).all()
    with pytest.raises(UserError, match='unknown kind of labels "class"; did you mean "classes"'):
        fit_baseline(["a"], [0], kind="class")


def test_hotel_reviews(shared_data: Path) -> None:
    rows = {}
    for split in ("train", "dev"):
        lines = gzip.decompress((shared_data / f"hotel_reviews_zh/{split}.jsonl.gz").read_bytes())
        found = [json.loads(line) for line in lines.decode().splitlines()]
        rows[split] = [row["text_a"] for row in found], [int(row["label"]) for row in found]
    baseline = fit_baseline(*rows["train"])
    texts, gold = rows["dev"]
    scores = classes(gold, baseline.probabilities(texts), ["0", "1"])
    assert scores["auc"] == pytest.approx(0.9714, abs=3e-4)  # the figure to beat
    assert scores["accuracy"] == pytest.approx(0.9275, abs=5e-3)
