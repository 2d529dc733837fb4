"""Causal language model: each token from those before it (GPT, 2018)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
import torch

from tianci.batch import Batch, Layout
from tianci.goals.base import Heads, Loss
from tianci.goals.laying import Ids, Laid, Laying, Marks
from tianci.goals.objectives.segments import Borders, Example, Span
from tianci.models.base import Model, States
from tianci.nn.heads import TiedHead


def guessing(layout: Layout) -> torch.Tensor:
    """(T - B,) all places but the last of each sequence: each of them guesses the next token."""
    inner = torch.ones(layout.tokens, dtype=torch.bool, device=layout.device)
    inner[layout.last()] = False
    return inner.nonzero().squeeze(1)


@dataclass(frozen=True)
class Causal(Laying):
    """begin, document, end: cut into full contexts; each begins with the last token of the one
    before, so that every token but the first is guessed exactly once.

    With train.packing full the next document follows behind the end token; the begin token is then
    rare (once in 64 contexts), so texts that are scored on their own begin a little worse.
    """

    name: ClassVar[str] = "causal"
    heads: ClassVar[tuple[str, ...]] = ("causal",)

    def cut(self, sentences: Borders, length: int, rng: np.random.Generator) -> Iterator[Example]:
        first, end = int(sentences[0]), int(sentences[-1])
        whole = end - first + 2  # place 0 is the begin token, the last one the end token
        for place in range(0, whole - 1, length - 1):
            stop = min(place + length, whole)
            span = (first + max(0, place - 1), min(end, first + stop - 1))
            yield Example(span, opens=place == 0, closes=stop == whole)

    def lay(self, text: Ids, example: Example, marks: Marks, rng: np.random.Generator) -> Laid:
        before = [marks.begin] if example.opens else []
        return Laid(np.r_[before, text, [marks.end] if example.closes else []].astype(np.int64))

    def own(self, example: Example) -> Span:
        start, stop = example.a
        return start + (not example.opens), stop  # what is only read was guessed before

    def restored(self, laid: Laid, example: Example, marks: Marks) -> Ids | None:
        if example.opens and laid.ids[0] != marks.begin:
            return None
        if example.closes and laid.ids[-1] != marks.end:
            return None
        return laid.ids[int(example.opens) : len(laid.ids) - example.closes]

    def count(self, batch: Batch) -> int:
        return batch.layout.tokens - len(batch.layout)

    def loss(self, model: Model, heads: Heads, states: States, batch: Batch) -> Loss:
        at = guessing(batch.layout)
        head = cast(TiedHead, heads["causal"])
        return Loss(*head.loss(states.last[at], model.token_table(), batch.tokens[at + 1]))


OBJECTIVE = Causal
