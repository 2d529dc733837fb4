"""Scores of sentence vectors: against similarities, as a search, or by their spread alone.

N rows, D draws, W width; all vectors have length 1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tianci.metrics.classification import class_score
from tianci.metrics.regression import number_score
from tianci.metrics.score import FloatArray, Score, divide, of_means

BLOCK = 1024  # rows that are compared with all others at once
SPREAD = 1000  # texts that the spread is measured on: it compares each with each


def similarity_score(
    gold: npt.ArrayLike, cosine: npt.ArrayLike, threshold: float | None = None
) -> Score:
    """spearman and pearson of cosines with scores; with a threshold also those of a yes or no."""
    truth, said = np.asarray(gold, np.float64), np.asarray(cosine, np.float64)
    numbers = number_score(truth, said)
    decided: Score | None = None
    if threshold is not None:
        decided = class_score(truth == 1, np.stack([-said, said], 1), ("0", "1"), threshold)

    def weighted(weights: FloatArray) -> dict[str, FloatArray]:
        found = numbers(weights)
        scores = {name: found[name] for name in ("spearman", "pearson")}
        if decided is not None:
            # a cosine is no probability: a half means nothing here
            scores |= {k: v for k, v in decided(weights).items() if not k.endswith("_at_half")}
        return scores

    return weighted


def retrieval_score(first: npt.ArrayLike, second: npt.ArrayLike) -> Score:
    """mrr, recall_at_1, recall_at_10: where each text's partner stands among all partners."""
    texts, partners = np.asarray(first, np.float32), np.asarray(second, np.float32)
    places: list[FloatArray] = []
    for start in range(0, len(texts), BLOCK):
        near = texts[start : start + BLOCK] @ partners.T
        own = near[np.arange(len(near)), np.arange(start, start + len(near))]
        # equal texts are equally near, but for rounding; they do not count as nearer
        places.append(1.0 + (near > own[:, None] + 1e-6).sum(1))
    place = np.concatenate(places) if places else np.zeros(0)
    return of_means({"mrr": 1 / place, "recall_at_1": place <= 1, "recall_at_10": place <= 10})


def spread_score(vectors: npt.ArrayLike) -> Score:
    """uniformity (Wang and Isola, 2020), its sign turned: high where texts lie far from each other.

    -log of the mean of exp(-2 |x - y|²) over all couples, from 0 (all in one place) to about 4.
    """
    some = np.asarray(vectors, np.float64)[:SPREAD]
    near = np.exp(4 * (some @ some.T) - 4)  # |x - y|² = 2 - 2 x y
    np.fill_diagonal(near, 0.0)

    def weighted(weights: FloatArray) -> dict[str, FloatArray]:
        w = weights[:SPREAD]
        couples = w.sum(0) ** 2 - (w**2).sum(0)
        mean = divide((w * (near @ w)).sum(0), couples, np.nan)
        return {"uniformity": -np.log(np.maximum(mean, 1e-300))}

    return weighted


def best_cut(cosine: npt.ArrayLike, positive: npt.ArrayLike) -> tuple[float, float]:
    """The threshold of the best accuracy, half way between two cosines, and that accuracy."""
    said, truth = np.asarray(cosine, np.float64), np.asarray(positive, bool)
    order = np.argsort(-said, kind="stable")
    values, right = said[order], truth[order]
    # with k rows above the threshold: positives among them, negatives below
    hits = np.concatenate([[0], np.cumsum(right)]) + (~right).sum()
    hits = hits - np.concatenate([[0], np.cumsum(~right)])
    allowed = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1], [True]]))
    best = int(allowed[hits[allowed].argmax()])
    edges = np.concatenate([[1.0 + 1e-6], values, [-1.0 - 1e-6]])
    return float((edges[best] + edges[best + 1]) / 2), float(hits[best] / max(1, len(said)))


def ranks(values: npt.ArrayLike) -> FloatArray:
    """Mean ranks from 1 on."""
    _, which, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    middle: FloatArray = np.cumsum(counts) - (counts - 1) / 2
    return middle[which]
