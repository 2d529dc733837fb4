"""A task as conditional probability: which of several continuations does the model expect?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tianci.errors import UserError
from tianci.serve.predictor import Predictor


def rank(model: Predictor, context: str, candidates: Sequence[str]) -> list[dict[str, Any]]:
    """The candidates, the likeliest first: log-probability of their tokens behind the context.

    `score` is the sum, `mean` the mean per token, `share` what the scores make of it as
    probabilities among these candidates. Masked models see the whole text and hide one token of
    the candidate at a time.
    """
    if not candidates:
        raise UserError("give at least one candidate")
    texts = [context + candidate for candidate in candidates]
    found: list[dict[str, Any]] = []
    for candidate, text, scored in zip(candidates, texts, model.score(texts), strict=True):
        row = model.tokenizer.encode([text])[0]
        ends = [end for (_, end), s in zip(row.offsets, row.special, strict=True) if not s]
        # a token that reaches into the candidate belongs to it
        inside = [n for n, end in enumerate(ends) if end > len(context)]
        values = [scored["token_scores"][n] for n in inside]
        if not values:
            raise UserError(f'the candidate "{candidate}" has no token of its own; give some text')
        total = math.fsum(values)
        found.append(
            {
                "text": candidate,
                "score": total,
                "mean": total / len(values),
                "tokens": [scored["tokens"][n] for n in inside],
                "token_scores": values,
            }
        )
    best = max(one["score"] for one in found)
    weights = [math.exp(one["score"] - best) for one in found]
    for one, weight in zip(found, weights, strict=True):
        one["share"] = weight / math.fsum(weights)
    return sorted(found, key=lambda one: -one["score"])
