"""Scores of vectors: hand-computed orders, thresholds, ranks of partners, spread."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tianci.metrics import embeddings
from tianci.metrics.interval import bootstrap_weighted
from tianci.metrics.score import value


def test_order_of_similarities() -> None:
    scores = value(embeddings.similarity_score([5, 3, 1], [0.9, 0.2, 0.4]), 3)
    # ranks 3 2 1 against 3 1 2: 1 - 6 * (0 + 1 + 1) / (3 * 8)
    assert scores["spearman"] == pytest.approx(0.5)
    assert set(scores) == {"spearman", "pearson"}


def test_yes_or_no_at_a_threshold() -> None:
    scores = value(embeddings.similarity_score([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1], 0.6), 4)
    assert scores["accuracy"] == 0.75 and scores["recall"] == 1.0
    assert scores["precision"] == pytest.approx(2 / 3) and scores["auc"] == 0.75
    assert scores["average_precision"] == pytest.approx((1 + 2 / 3) / 2)
    assert not [name for name in scores if "half" in name]


def test_best_cut_lies_between_two_cosines() -> None:
    assert embeddings.best_cut([0.9, 0.7, 0.3], [True, True, False]) == (pytest.approx(0.5), 1.0)
    # equal cosines stand on the same side: 0.8 cannot be cut
    cut, accuracy = embeddings.best_cut([0.8, 0.8, 0.2], [True, False, False])
    assert accuracy == pytest.approx(2 / 3) and (cut > 0.8 or 0.2 < cut < 0.8)
    cut, accuracy = embeddings.best_cut([0.5, 0.4], [False, False])
    assert cut > 0.5 and accuracy == 1.0
    cut, accuracy = embeddings.best_cut([-0.5, -0.4], [True, True])
    assert cut < -0.5 and accuracy == 1.0


def test_partner_found_among_all() -> None:
    texts = np.eye(3)
    partners = np.array([[1, 0, 0], [1, 0, 0], [0, 0.6, 0.8]])
    # the second text is nearest to the third partner, and its own is as far as the first
    scores = value(embeddings.retrieval_score(texts, partners), 3)
    assert scores["mrr"] == pytest.approx((1 + 1 / 2 + 1) / 3)
    assert scores["recall_at_1"] == pytest.approx(2 / 3) and scores["recall_at_10"] == 1.0


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    r = np.random.default_rng(0)
    first = r.normal(size=(25, 6))
    second = first + r.normal(size=(25, 6))
    whole = value(embeddings.retrieval_score(first, second), 25)
    monkeypatch.setattr(embeddings, "BLOCK", 4)
    assert value(embeddings.retrieval_score(first, second), 25) == whole
    assert 0 < whole["recall_at_1"] < 1


def test_spread() -> None:
    assert value(embeddings.spread_score(np.ones((4, 1))), 4)["uniformity"] == 0.0
    # two opposite places: of 12 ordered couples 4 are equal, 8 at a squared distance of 4
    signs = np.array([[1.0], [1.0], [-1.0], [-1.0]])
    expected = -math.log((4 + 8 * math.exp(-8)) / 12)
    scores = embeddings.spread_score(signs)
    assert value(scores, 4)["uniformity"] == pytest.approx(expected)
    low, high = bootstrap_weighted(scores, 4, draws=50)["uniformity"]
    assert 0 <= low <= high


def test_ranks() -> None:
    assert embeddings.ranks([10, 30, 10, 20]).tolist() == [1.5, 4.0, 1.5, 3.0]
