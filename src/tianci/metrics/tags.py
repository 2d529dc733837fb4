"""Scores of tags that mark no entities, such as parts of speech."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tianci.metrics.score import FloatArray, Score, divide, f_score

Tags = Sequence[str]


def tag_score(gold: Sequence[Tags], predicted: Sequence[Tags]) -> Score:
    """accuracy over words and macro_f1 over tags, as a function of the weights of sentences."""
    names = sorted({tag for tags in (*gold, *predicted) for tag in tags})
    number = {name: at for at, name in enumerate(names)}
    there, taken, right = (np.zeros((len(gold), len(names))) for _ in range(3))
    for row, (truth, guess) in enumerate(zip(gold, predicted, strict=True)):
        for one, other in zip(truth, guess, strict=True):
            there[row, number[one]] += 1
            taken[row, number[other]] += 1
            right[row, number[one]] += one == other

    def weighted(weights: FloatArray) -> dict[str, FloatArray]:
        hits, ours, theirs = (table.T @ weights for table in (right, taken, there))  # (tags, draws)
        seen = ((ours + theirs) > 0).sum(0).astype(np.float64)
        return {
            "accuracy": divide(hits.sum(0), theirs.sum(0), np.nan),
            "macro_f1": divide(f_score(hits, ours, theirs).sum(0), seen, np.nan),
        }

    return weighted
