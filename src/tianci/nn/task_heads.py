"""Heads of tasks. All are asked in the same way: the states of all layers and the layout.

`asks` says which tokens of the last layer a head reads (None: all): a model can leave out the rest.

Shapes: layers of (T, W) each -> (B, outputs) or, said of each token, (T, outputs).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tianci.batch import Layout
from tianci.errors import UserError
from tianci.nn.crf import ChainField
from tianci.nn.dropout import dropout
from tianci.nn.heads import Pooler
from tianci.nn.pooling import AttentionPooling, pool, pooled_width
from tianci.nn.recurrent import PackedLSTM

Layers = Sequence[Tensor]


class SequenceHead(nn.Module):
    """BERT's way: pooler over the first token, dropout, linear."""

    def __init__(self, width: int, outputs: int, dropout: float):
        super().__init__()
        self.pooler, self.linear = Pooler(width), nn.Linear(width, outputs)
        self.dropout = dropout

    def asks(self, layout: Layout) -> Tensor:
        return layout.first()

    def forward(self, layers: Layers, layout: Layout) -> Tensor:
        pooled = self.pooler(layers[-1][layout.first()])
        out: Tensor = self.linear(dropout(pooled, self.dropout, self.training))
        return out


class LastTokenHead(nn.Module):
    """The decoders' way: dropout and linear on the last token, which alone has seen all others."""

    def __init__(self, width: int, outputs: int, dropout: float, bias: bool):
        super().__init__()
        self.linear, self.dropout = nn.Linear(width, outputs, bias), dropout

    def asks(self, layout: Layout) -> Tensor:
        return layout.last()

    def forward(self, layers: Layers, layout: Layout) -> Tensor:
        last = dropout(layers[-1][layout.last()], self.dropout, self.training)
        out: Tensor = self.linear(last)
        return out


class TokenHead(nn.Module):
    """Dropout and linear on each token of the last layer."""

    def __init__(self, width: int, outputs: int, dropout: float):
        super().__init__()
        self.linear, self.dropout = nn.Linear(width, outputs), dropout

    def forward(self, layers: Layers, layout: Layout) -> Tensor:
        out: Tensor = self.linear(dropout(layers[-1], self.dropout, self.training))
        return out


@dataclass(frozen=True)
class HeadPlan:
    """What a head of our own is made of; kept in tianci.json, from which it is built again."""

    outputs: int  # 0: the pooled vector itself is the answer (sentence embeddings)
    per_token: bool = False
    pooling: str = "first"
    mixed_layers: int = 0  # how many layers to mix by learned weights (0: the last one only)
    lstm: int = 0  # width of a BiLSTM under the rest (0: none), each direction
    crf: bool = False
    hidden: int = 0  # width of one more linear layer, without activation (0: none)
    dropout: float = 0.1

    def as_table(self) -> dict[str, Any]:
        return asdict(self)


class LayerMix(nn.Module):
    """A softmax-weighted sum of all layers and one scale (ELMo's way)."""

    def __init__(self, layers: int):
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, layers: Layers) -> Tensor:
        share = self.weights.softmax(0)
        total = share[0] * layers[0]
        for weight, layer in zip(share[1:], layers[1:], strict=True):
            total = total + weight * layer
        return self.scale * total


class PlannedHead(nn.Module):
    """A head put together as a plan says: mix, BiLSTM, pooling, linear layers."""

    def __init__(self, width: int, plan: HeadPlan):
        super().__init__()
        self.plan, self.dropout = plan, plan.dropout
        if plan.crf and not plan.per_token:
            raise UserError("a CRF needs a label per token; it has no meaning for whole texts")
        self.mix = LayerMix(plan.mixed_layers) if plan.mixed_layers else None
        self.lstm = PackedLSTM(width, plan.lstm) if plan.lstm else None
        width = 2 * plan.lstm or width
        self.attention = AttentionPooling(width) if plan.pooling == "attention" else None
        if not plan.per_token:
            width = pooled_width(plan.pooling, width)
        self.hidden = nn.Linear(width, plan.hidden) if plan.hidden else None
        self.linear = nn.Linear(plan.hidden or width, plan.outputs) if plan.outputs else None
        self.crf = ChainField(plan.outputs) if plan.crf else None

    def asks(self, layout: Layout) -> Tensor | None:
        plan = self.plan
        if plan.per_token or plan.mixed_layers or plan.lstm:
            return None
        return {"first": layout.first(), "last": layout.last()}.get(plan.pooling)

    def forward(self, layers: Layers, layout: Layout) -> Tensor:
        x = layers[-1] if self.mix is None else self.mix(layers)
        if self.lstm is not None:
            x = self.lstm(dropout(x, self.dropout, self.training), layout)
        if self.attention is not None:
            x = self.attention(x, layout)
        elif not self.plan.per_token:
            x = pool(x, layout, self.plan.pooling)
        if self.hidden is not None or self.linear is not None:  # a bare vector stays whole
            x = dropout(x, self.dropout, self.training)
        if self.hidden is not None:
            x = self.hidden(x)
        return x if self.linear is None else self.linear(x)
