"""What the training loop knows of goals: they have heads, they count, and they turn states into
losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

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

    def loss(self, model: Model, heads: Heads, states: States, batch: Batch) -> Loss:
        """The summed loss and the hits."""
        raise TypeError(f"{self.name} has no loss")

    def settings(self) -> dict[str, Any]:
        """The fields, for the record."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


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
        states = model(batch)
        return {part.name: part.loss(model, heads, states, batch) for part in self.parts}

    def find(self, kind: type[Any]) -> Any:
        """The first part of a kind, or None."""
        return next((part for part in self.parts if isinstance(part, kind)), None)
