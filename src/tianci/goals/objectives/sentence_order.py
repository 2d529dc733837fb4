"""Sentence order: are two neighbouring segments in their order, or swapped? (ALBERT, 2019)"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tianci.batch import Batch
from tianci.errors import UserError
from tianci.goals.base import Heads, Loss
from tianci.goals.objectives.segments import Documents, Example, Pairing, chunk, fit, target_length
from tianci.models.base import Model, States
from tianci.settings import setting

IN_ORDER, SWAPPED = 0, 1


@dataclass(frozen=True)
class SentenceOrder(Pairing):
    """Both segments always come from one document, so the topic gives nothing away."""

    name: ClassVar[str] = "sentence_order"
    heads: ClassVar[tuple[str, ...]] = ("sentence_order",)

    swapped: float = setting(0.5, "share of pairs that are swapped")

    def __post_init__(self) -> None:
        if not 0 <= self.swapped <= 1:
            raise UserError(f"sentence_order.swapped is {self.swapped}, but is a share, 0 to 1")

    def cut(
        self, documents: Documents, document: int, room: int, short: float, rng: np.random.Generator
    ) -> Iterator[Example]:
        sentences = documents.sentences(document)
        first = 0
        while first < len(sentences) - 1:
            piece = chunk(sentences, first, target_length(room, short, rng), rng)
            if piece is None:
                first += 1
                continue
            start, end = int(sentences[piece.first]), int(sentences[piece.last])
            a, b = fit((start, piece.split), (piece.split, end), room, rng)
            swap = rng.random() < self.swapped
            yield Example(b, a, SWAPPED) if swap else Example(a, b, IN_ORDER)
            first = piece.last

    def count(self, batch: Batch) -> int:
        return len(batch.layout)

    def asks(self, heads: Heads, batch: Batch) -> Tensor:
        return batch.layout.first()

    def loss(self, model: Model, heads: Heads, states: States, batch: Batch) -> Loss:
        logits = heads["sentence_order"](states.pooled("first")).float()
        labels = batch.targets["label"]
        hits = torch.eq(logits.argmax(-1), labels).sum()
        return Loss(F.cross_entropy(logits, labels, reduction="sum"), hits)


OBJECTIVE = SentenceOrder
