"""A task as conditional probability: which of several continuations does the model expect?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from tianci.batch import Batch
from tianci.errors import UserError
from tianci.serve.predictor import Predictor
from tianci.serve.writing import has_halves, prepare


def rank(model: Predictor, context: str, candidates: Sequence[str]) -> list[dict[str, Any]]:
    """The candidates, the likeliest first: log-probability of their tokens behind the context.

    `score` is the sum, `mean` the mean per token, `share` what the scores make of it as
    probabilities among these candidates. Masked models see the whole text and hide one token of
    the candidate at a time. T5 reads the context and judges the candidate as its target.
    """
    if not candidates:
        raise UserError("give at least one candidate")
    if has_halves(model):
        return _ordered([_target(model, context, candidate) for candidate in candidates])
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
    return _ordered(found)


def _target(model: Predictor, context: str, candidate: str) -> dict[str, Any]:
    """A candidate as T5's target of the context, its end included: it is a whole text."""
    config, tokenizer = model.model.config, model.tokenizer
    (ids,) = tokenizer.ids([candidate], special=False)
    if not ids:
        raise UserError(f'the candidate "{candidate}" has no token of its own; give some text')
    asked, said = prepare(model, context), [*ids, config.end]
    target = Batch.of([[config.begin, *ids]])
    batch = replace(Batch.of([asked.ids]), decoder=target).to(model.device)
    with torch.inference_mode():
        states = model.model(batch).last
        logits = model.heads["generation"](states, model.model.token_table()).float()
        scores = logits.log_softmax(1)[range(len(said)), said].tolist()
    total = math.fsum(scores)
    return {
        "text": candidate,
        "score": total,
        "mean": total / len(said),
        "tokens": [tokenizer.token(i) for i in said],
        "token_scores": scores,
    }


def _ordered(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The likeliest first, each with its share."""
    best = max(one["score"] for one in found)
    weights = [math.exp(one["score"] - best) for one in found]
    for one, weight in zip(found, weights, strict=True):
        one["share"] = weight / math.fsum(weights)
    return sorted(found, key=lambda one: -one["score"])
