"""Output layers that families and goals share."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tianci.nn.activations import Activation
from tianci.nn.dropout import dropout
from tianci.nn.few_shapes import filled, in_bf16
from tianci.nn.vocabulary_loss import vocabulary_loss


class Pooler(nn.Module):
    """tanh(W x + b) of the first token's vector: (B, W) -> (B, W)."""

    def __init__(self, width: int):
        super().__init__()
        self.dense = nn.Linear(width, width)

    def forward(self, first: Tensor) -> Tensor:
        return torch.tanh(self.dense(first))


class VocabularyHead(nn.Module):
    """Logits over the vocabulary: dense, activation, norm, then the token table itself and a bias.

    The table is passed in at each call: tied by use, so there is nothing to keep in step.
    """

    def __init__(self, width: int, vocabulary: int, activation: Activation, norm: nn.Module):
        super().__init__()
        self.dense, self.norm = nn.Linear(width, width), norm
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self.activation = activation

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        return F.linear(self.transform(x), table, self.bias)

    def transform(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(self.activation(self.dense(x)))
        return out

    def loss(self, x: Tensor, table: Tensor, answers: Tensor) -> tuple[Tensor, Tensor]:
        """(summed cross entropy, number of right answers) without ever holding all logits."""
        if in_bf16(x):
            x = filled(x)
        return vocabulary_loss(self.transform(x), table, self.bias, answers)


class TiedHead(nn.Module):
    """Logits over the vocabulary by the token table alone: no weights of its own (GPT, T5)."""

    def __init__(self, scale: float = 1.0):
        super().__init__()
        self.scale = scale

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        return F.linear(x * self.scale, self.rows(table))

    def rows(self, table: Tensor) -> Tensor:
        """(V, W) what the states are compared with."""
        return table

    def loss(self, x: Tensor, table: Tensor, answers: Tensor) -> tuple[Tensor, Tensor]:
        """(summed cross entropy, number of right answers) without ever holding all logits."""
        rows = self.rows(table)
        return vocabulary_loss(x * self.scale, rows, rows.new_zeros(len(rows)), answers)


class FreeHead(TiedHead):
    """The same with a table of its own (T5 v1.1)."""

    def __init__(self, width: int, vocabulary: int, scale: float = 1.0):
        super().__init__(scale)
        self.linear = nn.Linear(width, vocabulary, bias=False)

    def rows(self, table: Tensor) -> Tensor:
        return self.linear.weight


class PooledClassifier(nn.Module):
    """Pooler, dropout, linear: BERT's head for anything said about a whole sequence."""

    def __init__(self, width: int, classes: int, dropout: float):
        super().__init__()
        self.pooler, self.linear = Pooler(width), nn.Linear(width, classes)
        self.dropout = dropout

    def forward(self, first: Tensor) -> Tensor:
        out: Tensor = self.linear(dropout(self.pooler(first), self.dropout, self.training))
        return out
