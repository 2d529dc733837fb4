"""What a bag of words reaches with the same labels: n-grams, tf-idf and a linear model.

N rows, C classes, F features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tianci.errors import unknown
from tianci.metrics.language import language_of
from tianci.metrics.score import FloatArray

Sparse = Any  # a scipy.sparse matrix; scipy brings no types

INVERSE_PENALTY = 10.0  # C of the logistic regressions
RARE = 1000  # from so many rows on, n-grams of one single text are left out


@dataclass(frozen=True)
class Baseline:
    """A fitted bag of words; `probabilities` of classes, or `values` where it learned numbers."""

    features: Callable[[Sequence[str], Sequence[str] | None], Sparse]
    model: Callable[[Sparse], FloatArray]

    def probabilities(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> FloatArray:
        """(N, C): of each class one, or of each label whether it holds."""
        return self.model(self.features(texts, pairs))

    def values(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> FloatArray:
        """(N,): the number of each row."""
        return self.model(self.features(texts, pairs))


def fit_baseline(
    texts: Sequence[str],
    labels: npt.ArrayLike,
    pairs: Sequence[str] | None = None,
    kind: str = "classes",
    seed: int = 0,
    count: int | None = None,
) -> Baseline:
    """A bag of words for `classes` (labels 0...C-1), `many` (labels (N, C) of 0 and 1) or `number`.

    `count` is C where the rows may not have all classes; those without rows get probability 0.
    """
    heads = {"classes": _fit_classes, "many": _fit_many, "number": _fit_number}
    if kind not in heads:
        raise unknown("kind of labels", kind, heads)
    features, rows = _fit_features(texts, pairs)
    return Baseline(features, heads[kind](rows, np.asarray(labels), seed, count))


def _fit_features(
    texts: Sequence[str], pairs: Sequence[str] | None
) -> tuple[Callable[[Sequence[str], Sequence[str] | None], Sparse], Sparse]:
    """What turns texts into rows of numbers, learned from these texts, and their rows."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    known = [*texts, *(pairs or [])]
    usual = {"sublinear_tf": True, "min_df": 2 if len(texts) >= RARE else 1, "dtype": np.float32}
    grams = [TfidfVectorizer(analyzer="char", ngram_range=(1, 3), **usual)]
    if language_of(known) != "zh":  # texts with spaces have words
        grams.append(TfidfVectorizer(token_pattern=r"\w+", ngram_range=(1, 2), **usual))
    learned = [(one, rows) for one in grams if (rows := _learn(one, known)) is not None]

    def features(firsts: Sequence[str], seconds: Sequence[str] | None) -> Sparse:
        sides = [firsts] if seconds is None else [firsts, seconds]
        parts = [[one.transform(side) for one, _ in learned] for side in sides]
        return _joined(*(_beside(part, len(firsts)) for part in parts))

    rows = _beside([rows for _, rows in learned], len(known))
    return features, _joined(
        *(rows[at : at + len(texts)] for at in range(0, len(known), len(texts)))
    )


def _learn(vectorizer: Any, texts: Sequence[str]) -> Sparse | None:
    """The n-grams of texts, or nothing where there are none (empty texts, only punctuation)."""
    try:
        return vectorizer.fit_transform(texts)
    except ValueError:
        return None


def _beside(parts: Sequence[Sparse], count: int) -> Sparse:
    from scipy.sparse import csr_matrix, hstack

    return hstack(parts, format="csr") if parts else csr_matrix((count, 1), dtype=np.float32)


def _joined(a: Sparse, b: Sparse | None = None) -> Sparse:
    """The features of one text, or of two and of what they share."""
    from scipy.sparse import csr_matrix, hstack

    if b is None:
        return a
    both, apart = a.multiply(b).tocsr(), abs(a - b)
    # a product or a difference of n-grams never seen again says nothing; their sums do
    sums = np.asarray(np.hstack([both.sum(1), apart.sum(1) / 10, *_shares(both, a, b)]))
    return hstack([a, b, apart, both, csr_matrix(sums, dtype=np.float32)], format="csr")


def _shares(both: Sparse, *sides: Sparse) -> list[FloatArray]:
    """The share of each side's n-grams that the other has too, (N, 1) each."""
    common = np.diff(both.indptr)
    return [(common / np.maximum(np.diff(side.indptr), 1))[:, None] for side in sides]


def _fit_classes(
    features: Sparse, labels: npt.NDArray[Any], seed: int, count: int | None
) -> Callable[[Sparse], FloatArray]:
    total = count or int(labels.max()) + 1
    seen = np.unique(labels)
    model = _logistic(features, labels, seed) if len(seen) > 1 else None

    def probabilities(rows: Sparse) -> FloatArray:
        table = np.zeros((rows.shape[0], total))
        table[:, seen] = 1.0 if model is None else model.predict_proba(rows)
        return table

    return probabilities


def _fit_many(
    features: Sparse, labels: npt.NDArray[Any], seed: int, count: int | None
) -> Callable[[Sparse], FloatArray]:
    columns = [_fit_classes(features, column.astype(int), seed, 2) for column in labels.T]
    return lambda rows: np.stack([column(rows)[:, 1] for column in columns], 1)


def _fit_number(
    features: Sparse, labels: npt.NDArray[Any], seed: int, count: int | None
) -> Callable[[Sparse], FloatArray]:
    from sklearn.linear_model import Ridge

    model = Ridge(alpha=1.0, solver="sparse_cg", random_state=seed).fit(features, labels)
    return lambda rows: np.asarray(model.predict(rows), np.float64)


def _logistic(features: Sparse, labels: npt.NDArray[Any], seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    # liblinear knows two classes only; one against the rest is much faster than all in one
    model = LogisticRegression(C=INVERSE_PENALTY, solver="liblinear", random_state=seed)
    if len(np.unique(labels)) > 2:
        model = OneVsRestClassifier(model)
    return model.fit(features, labels)
