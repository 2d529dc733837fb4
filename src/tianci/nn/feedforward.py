"""The position-wise part of a block."""

from __future__ import annotations

from torch import Tensor, nn

from tianci.nn.activations import Activation
from tianci.nn.dropout import dropout


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


class BareFeedForward(nn.Module):
    """Up, activation, dropout, down, without biases (T5)."""

    def __init__(self, width: int, hidden: int, activation: Activation, dropout: float):
        super().__init__()
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        self.activation, self.dropout = activation, dropout

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.activation(self.up(x))
        out: Tensor = self.down(dropout(hidden, self.dropout, self.training))
        return out


class GatedFeedForward(nn.Module):
    """The same where an activated product opens and closes another one (Shazeer, 2020)."""

    def __init__(self, width: int, hidden: int, activation: Activation, dropout: float):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.value = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        self.activation, self.dropout = activation, dropout

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.activation(self.gate(x)) * self.value(x)
        out: Tensor = self.down(dropout(hidden, self.dropout, self.training))
        return out
