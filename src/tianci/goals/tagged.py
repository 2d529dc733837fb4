"""A sentence whose words have tags: entities with their places, and which tag may follow which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tianci.data.rows import Row
from tianci.metrics.entities import Span
from tianci.text.aligned import Sentence

OUTSIDE = "O"
SHOWN = 30  # sentences with errors, for the report


class Tagged(NamedTuple):
    """A sentence with the tag of each word and its probability (nan where it has no token)."""

    sentence: Sentence
    tags: list[str]
    scores: list[float]

    @property
    def words(self) -> list[str]:
        return [self.sentence.text[start:end] for start, end in self.sentence.spans]

    def place(self, span: Span) -> tuple[int, int]:
        """Where an entity is in the text."""
        _, first, end = span
        return self.sentence.spans[first][0], self.sentence.spans[end - 1][1]

    def entity(self, span: Span) -> dict[str, Any]:
        """An entity as people get it; its score is the mean of its words'."""
        label, first, end = span
        start, stop = self.place(span)
        return {
            "label": label,
            "word": self.sentence.text[start:stop],
            "start": start,
            "end": stop,
            "score": float(np.nanmean(self.scores[first:end])),
        }

    def named(self, span: Span) -> str:
        """An entity for the report."""
        return f"{self.sentence.text[slice(*self.place(span))]} {span[0]}"


def spread(
    sentence: Sentence, words: Sequence[int], tags: Sequence[str], scores: Sequence[float]
) -> Tagged:
    """All words tagged, from those that have tokens: the others are O, or inside an entity that
    goes on behind them."""
    result = Tagged(sentence, [OUTSIDE] * len(sentence.spans), [float("nan")] * len(sentence.spans))
    done = 0
    for word, tag, score in zip(words, tags, scores, strict=True):
        result.tags[word], result.scores[word] = tag, score
        if tag.startswith("I-"):
            result.tags[done:word] = [tag] * (word - done)
        done = word + 1
    return result


def forbidden(labels: Sequence[str]) -> Tensor:
    """(C + 1, C) True where a label must not follow: I- goes on with B- or I- of its type only;
    row C is the beginning."""
    before = [*labels, OUTSIDE]
    return torch.tensor(
        [[to[:2] == "I-" and one not in (f"B-{to[2:]}", to) for to in labels] for one in before]
    )


def worst(
    rows: Sequence[Row], gold: Sequence[Sequence[Span]], said: Sequence[Sequence[Span]],
    answers: Sequence[Tagged],
) -> list[dict[str, Any]]:  # fmt: skip
    """The sentences with most errors: what was missed, and what was found instead."""
    found = []
    for row, there, here, answer in zip(rows, gold, said, answers, strict=True):
        missed = [answer.named(span) for span in there if span not in here]
        wrong = [answer.named(span) for span in here if span not in there]
        if missed or wrong:
            error = {
                "place": row.place,
                "text": answer.sentence.text,
                "label": "; ".join(missed),
                "predicted": "; ".join(wrong),
            }
            found.append((len(missed) + len(wrong), error))
    found.sort(key=lambda pair: -pair[0])
    return [error for _, error in found[:SHOWN]]
