"""What the training loop knows of goals: they have heads, they count, and they turn states into
losses."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from tianci.batch import Batch
from tianci.models.base import Model, States

Heads = Mapping[str, nn.Module]


class Loss(NamedTuple):
    """A sum, never a mean: the loop divides by the count of the whole batch, so that accumulation
    and data parallelism stay exact."""

    total: Tensor
    hits: Tensor  # how many were right


@dataclass(frozen=True)
class Goal:
    """Something to learn. The fields of a goal are its settings."""

    name: ClassVar[str]
    heads: ClassVar[tuple[str, ...]] = ()

    def count(self, batch: Batch) -> int:
        """How many things of this batch are judged."""
        raise TypeError(f"{self.name} does not count")

    def asks(self, heads: Heads, batch: Batch) -> Tensor | None:
        """The tokens whose last states the loss reads, each once; None: all."""
        return None

    def loss(self, model: Model, heads: Heads, states: States, batch: Batch) -> Loss:
        """The summed loss and the hits."""
        raise TypeError(f"{self.name} has no loss")

    def with_heads(self, heads: Collection[str]) -> Goal:
        """The goal for a model that can have these heads, where it fits several."""
        return self

    def settings(self) -> dict[str, Any]:
        """The fields, for the record."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def asking(batch: Batch, wishes: Sequence[Tensor | None]) -> Batch:
    """The batch, which says what is asked for where that saves work."""
    places = [wish for wish in wishes if wish is not None]
    if not places or len(places) < len(wishes):
        return batch
    asked = places[0] if len(places) == 1 else torch.unique(torch.cat(places))
    return replace(batch, asked=asked) if 2 * len(asked) < batch.layout.tokens else batch


@dataclass(frozen=True)
class Joint:
    """Several goals learned together; their mean losses are added."""

    parts: tuple[Goal, ...]

    @property
    def name(self) -> str:
        return "+".join(part.name for part in self.parts)

    @property
    def heads(self) -> tuple[str, ...]:
        return tuple(head for part in self.parts for head in part.heads)

    def count(self, batch: Batch) -> dict[str, int]:
        return {part.name: part.count(batch) for part in self.parts}

    def losses(self, model: Model, heads: Heads, batch: Batch) -> dict[str, Loss]:
        states = model(asking(batch, [part.asks(heads, batch) for part in self.parts]))
        return {part.name: part.loss(model, heads, states, batch) for part in self.parts}

    def find(self, kind: type[Any]) -> Any:
        """The first part of a kind, or None."""
        return next((part for part in self.parts if isinstance(part, kind)), None)
