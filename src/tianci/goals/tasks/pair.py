"""Two texts, one label: inference, paraphrase, query and document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from tianci.batch import Batch
from tianci.data.rows import Field, Row
from tianci.data.rows_fields import LABEL, PAIR, TEXT
from tianci.goals.base import Heads
from tianci.goals.tasks.base import Part
from tianci.goals.tasks.classify import Classify, both_orders
from tianci.models.base import States
from tianci.settings import setting
from tianci.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Pair(Classify):
    """How two texts relate; each has its segment.

    A symmetric pair is read in both orders, and what the head makes of them is added. Heads end
    in a product with a matrix, so this is the sum of the two representations, as in GPT.
    """

    name: ClassVar[str] = "pair"
    fields: ClassVar[tuple[Field, ...]] = (
        Field("text", TEXT),
        Field("pair", PAIR),
        Field("label", LABEL, kind="label"),
    )

    symmetric: bool = setting(False, "read each pair in both orders, for relations that have none")

    def parts(
        self, rows: Sequence[Row], tokenizer: Tokenizer, limit: int
    ) -> list[tuple[Part, ...]]:
        if self.symmetric:
            return both_orders(rows, tokenizer, limit)
        return super().parts(rows, tokenizer, limit)

    def logits(self, heads: Heads, states: States, batch: Batch) -> Tensor:
        said = super().logits(heads, states, batch)
        return said[0::2] + said[1::2] if self.symmetric else said


TASK = Pair
