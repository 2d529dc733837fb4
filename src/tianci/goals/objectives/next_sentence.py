"""Next sentence: does the second segment really follow the first? (BERT, 2018)"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tianci.batch import Batch
from tianci.errors import UserError
from tianci.goals.base import Heads, Loss
from tianci.goals.objectives.segments import (
    Documents,
    Example,
    Pairing,
    Span,
    chunk,
    fit,
    target_length,
)
from tianci.models.base import Model, States
from tianci.settings import setting

IS_NEXT, IS_RANDOM = 0, 1  # as in the public checkpoints


@dataclass(frozen=True)
class NextSentence(Pairing):
    """Half of the pairs are neighbours, half come from different documents."""

    name: ClassVar[str] = "next_sentence"
    heads: ClassVar[tuple[str, ...]] = ("next_sentence",)

    random: float = setting(0.5, "share of pairs whose second segment is from another document")
    loss_kind: Literal["two-class", "sigmoid"] = setting(
        "two-class", "softmax over two, or sigmoid"
    )

    def __post_init__(self) -> None:
        if not 0 <= self.random <= 1:
            raise UserError(f"next_sentence.random is {self.random}, but is a share, from 0 to 1")

    def cut(
        self, documents: Documents, document: int, room: int, short: float, rng: np.random.Generator
    ) -> Iterator[Example]:
        if documents.count() < 2:
            raise UserError(
                "next_sentence needs at least two documents; add text or use masked alone"
            )
        sentences = documents.sentences(document)
        first = 0
        while first < len(sentences) - 1:
            target = target_length(room, short, rng)
            piece = chunk(sentences, first, target, rng)
            if piece is None:
                first += 1
                continue
            a = (int(sentences[piece.first]), piece.split)
            if rng.random() < self.random:
                tokens = max(1, target - (a[1] - a[0]))
                b = self._elsewhere(documents, document, tokens, piece.inside, rng)
                first = piece.split_sentence  # what was not used comes in the next example
                label = IS_RANDOM
            else:
                b = (piece.split, int(sentences[piece.last]))
                first = piece.last
                label = IS_NEXT
            a, b = fit(a, b, room, rng)
            yield Example(a, b, label)

    def _elsewhere(
        self,
        documents: Documents,
        document: int,
        tokens: int,
        inside: bool,
        rng: np.random.Generator,
    ) -> Span:
        """Sentences of another document, from a random one on, until there are enough tokens.

        They begin inside a sentence where a real continuation would: otherwise a first word that
        begins no sentence would give the answer away.
        """
        other = int(rng.integers(documents.count() - 1))
        other += other >= document
        sentences = documents.sentences(other)
        first = int(rng.integers(len(sentences) - 1))
        start, end = int(sentences[first]), int(sentences[first + 1])
        if inside and end - start > 1:
            start = int(rng.integers(start + 1, end))
        last = int(np.searchsorted(sentences, start + tokens, side="left"))
        return start, int(sentences[min(last, len(sentences) - 1)])

    def count(self, batch: Batch) -> int:
        return len(batch.layout)

    def asks(self, heads: Heads, batch: Batch) -> Tensor:
        return batch.layout.first()

    def loss(self, model: Model, heads: Heads, states: States, batch: Batch) -> Loss:
        logits = heads["next_sentence"](states.pooled("first")).float()
        labels = batch.targets["label"]
        if self.loss_kind == "sigmoid":
            # one number: how much more likely "random" is; the same two rows serve, so that the
            # checkpoint stays the public one
            margin = logits[:, IS_RANDOM] - logits[:, IS_NEXT]
            total = F.binary_cross_entropy_with_logits(margin, labels.float(), reduction="sum")
        else:
            total = F.cross_entropy(logits, labels, reduction="sum")
        return Loss(total, torch.eq(logits.argmax(-1), labels).sum())


OBJECTIVE = NextSentence
