"""The position-wise part of a block."""

from __future__ import annotations

from torch import Tensor, nn

from tianci.nn.activations import Activation


class FeedForward(nn.Module):
    """Up, activation, down."""

    def __init__(self, width: int, hidden: int, activation: Activation):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(self.activation(self.up(x)))
        return out
