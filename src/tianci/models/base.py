"""What all families share: Model, States, and the way to say how public checkpoints name things."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from tianci.batch import Batch, Layout
from tianci.errors import UserError
from tianci.nn.pooling import pool


@dataclass(frozen=True)
class States:
    """What a model says about a batch: one (T, W) tensor per layer, 0 being the embedding."""

    layers: Sequence[Tensor]
    layout: Layout

    @property
    def last(self) -> Tensor:
        return self.layers[-1]

    def mixed(self, weights: Tensor) -> Tensor:
        """The sum of all layers, each with its weight."""
        total = weights[0] * self.layers[0]
        for weight, layer in zip(weights[1:], self.layers[1:], strict=True):
            total = total + weight * layer
        return total

    def pooled(self, kind: str = "first", layer: int = -1) -> Tensor:
        """(B, W): one vector per sequence."""
        return pool(self.layers[layer], self.layout, kind)


class Model(nn.Module):
    """A family's body: batch in, States out. Heads belong to goals."""

    config: Any

    def forward(self, batch: Batch) -> States:
        """The states of all layers."""
        raise TypeError(f"{type(self).__name__} has no forward")

    def depth(self) -> list[nn.Module]:
        """The parts from shallow to deep: for freezing, rates per layer, unfreezing, truncation."""
        raise TypeError(f"{type(self).__name__} has no depth")

    def keep_layers(self, count: int) -> None:
        """Cuts the model down to its first layers."""
        blocks = self.get_submodule("stack").blocks
        if not isinstance(blocks, nn.ModuleList) or not 1 <= count <= len(blocks):
            raise UserError(f"--layers is {count}, but the model has {self.config.layers} layers")
        self.get_submodule("stack").blocks = blocks[:count]
        self.config = dataclasses.replace(self.config, layers=count)

    def token_table(self) -> Tensor:
        """(V, W) input vectors, for output layers that use them again."""
        raise TypeError(f"{type(self).__name__} has no token table")

    def flops(self, length: int) -> float:
        """Operations of one forward pass, per token, in sequences of that length."""
        raise TypeError(f"{type(self).__name__} does not count its operations")

    @property
    def parameter_count(self) -> int:
        return sum(p.numel() for p in self.parameters())

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device


# Our module name -> the public one; several public names are stacked (query, key, value in one
# matrix).
# "{i}" stands for the number of a layer. Names are given without .weight and .bias.
Names = Mapping[str, str | tuple[str, ...]]


@dataclass(frozen=True)
class Public:
    """How the public format of a family names everything."""

    model_type: str
    config: Mapping[str, str]  # our field -> public field
    body: Names
    heads: Mapping[
        str, Names
    ]  # head -> names; a name that starts with "^" lies inside the body's prefix
    prefix: str  # stands before the body's names when there is a head
    architectures: Mapping[
        frozenset[str], str
    ]  # which heads -> the class that transformers calls it
    ignored: tuple[str, ...] = ()  # tensors that carry nothing (buffers, tied copies)
    fixed: Mapping[str, Any] = field(
        default_factory=dict
    )  # public settings of which we know one value
