"""Source to target: the first part of a text as a source, the rest is written (UniLM, T5, 2019)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, cast

import numpy as np
from torch import Tensor

from tianci.batch import Batch, Layout
from tianci.goals.base import Heads, Loss
from tianci.goals.laying import Ids, Laid, Laying, Marks
from tianci.goals.objectives.causal import guessing
from tianci.goals.objectives.segments import Borders, Example
from tianci.goals.objectives.span import target_loss
from tianci.models.base import Model, States
from tianci.nn.heads import TiedHead
from tianci.settings import setting


def writing(layout: Layout) -> Tensor:
    """The places that guess a token of a target: the last of the source, and what follows."""
    every = guessing(layout)
    first = [n - 1 for n in layout.prefix or (0,) * len(layout)]
    begins = layout.starts.new_tensor(first)[layout.sequence[every]]
    return every[layout.position[every] >= begins]


@dataclass(frozen=True)
class Prefix(Laying):
    """begin source end target end, cut at random; the source sees itself as a whole.

    The same sequences as in the task generate. A model with a decoder reads the source in its
    encoder and writes the target in its decoder. The last end only where the document ends.
    """

    name: ClassVar[str] = "prefix"

    head: Literal["", "causal", "masked", "generation"] = setting(
        "", "who writes: a decoder (causal), an encoder (masked), a T5 (generation); by the family"
    )

    def with_heads(self, heads: Collection[str]) -> Prefix:
        if self.head:
            return self
        for name in ("generation", "causal", "masked"):
            if name in heads:
                return replace(self, head=name)
        return replace(self, head="causal")

    @property
    def heads(self) -> tuple[str, ...]:  # type: ignore[override]  # this goal fits three families
        return (self.head or "causal",)

    def cut(self, sentences: Borders, length: int, rng: np.random.Generator) -> Iterator[Example]:
        first, end = int(sentences[0]), int(sentences[-1])
        for start in range(first, end, length - 3):  # the marks need three places
            stop = min(start + length - 3, end)
            yield Example((start, stop), opens=start == first, closes=stop == end)

    def lay(self, text: Ids, example: Example, marks: Marks, rng: np.random.Generator) -> Laid:
        size = int(rng.integers(1, max(2, len(text))))
        begin, end = np.array([marks.begin]), np.array([marks.end])
        source, target = text[:size], text[size:]
        ends = end if example.closes else end[:0]
        if self.head == "generation":
            return Laid(np.r_[source, end], decoder=np.r_[begin, target, ends])
        return Laid(np.r_[begin, source, end, target, ends], prefix=size + 2)

    def count(self, batch: Batch) -> int:
        return len(writing(batch.layout if batch.decoder is None else batch.decoder.layout))

    def loss(self, model: Model, heads: Heads, states: States, batch: Batch) -> Loss:
        if batch.decoder is not None:
            return target_loss(model, heads, states, batch.decoder)
        at = writing(batch.layout)
        head = cast(TiedHead, heads[self.heads[0]])
        return Loss(*head.loss(states.last[at], model.token_table(), batch.tokens[at + 1]))

    # ------------------------------------------------------------ what an audit asks

    def restored(self, laid: Laid, example: Example, marks: Marks) -> Ids | None:
        whole = laid.ids if laid.decoder is None else np.r_[laid.decoder[:1], laid.ids]
        border = laid.prefix or len(whole)
        target = whole[border:] if laid.decoder is None else laid.decoder[1:]
        if whole[0] != marks.begin or whole[border - 1] != marks.end:
            return None
        if example.closes and (not len(target) or target[-1] != marks.end):
            return None
        text: Ids = np.r_[whole[1 : border - 1], target[: len(target) - example.closes]]
        return text

    def shares(self, laid: Laid, marks: Marks) -> dict[str, tuple[int, int]]:
        source = laid.prefix or len(laid.ids)
        return {
            "prefix.source": (
                source,
                len(laid.ids) + (0 if laid.decoder is None else len(laid.decoder)),
            )
        }

    def promised(self) -> dict[str, float | None]:
        return {"prefix.source": None}


OBJECTIVE = Prefix
