"""How a part is joined to the stream that runs past it."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from tianci.nn.dropout import dropout


class Residual(nn.Module):
    """A part beside the stream; an adapter may be put behind it (nn/adapter.py)."""

    def __init__(self, part: nn.Module, norm: nn.Module, dropout: float):
        super().__init__()
        self.part, self.norm, self.dropout = part, norm, dropout
        self.adapter: nn.Module | None = None

    def change(self, x: Tensor, *context: Any) -> Tensor:
        """What the part adds to the stream."""
        change = dropout(self.part(x, *context), self.dropout, self.training)
        return change if self.adapter is None else self.adapter(change)


class PostNorm(Residual):
    """norm(x + dropout(part(x))), as in the first Transformer and in BERT."""

    def forward(self, x: Tensor, *context: Any) -> Tensor:
        out: Tensor = self.norm(x + self.change(x, *context))
        return out

    def at(self, asked: Tensor, x: Tensor, *context: Any) -> Tensor:
        """The same for some tokens only; the part is told which."""
        out: Tensor = self.norm(x[asked] + self.change(x, *context, asked))
        return out


class PreNorm(Residual):
    """x + dropout(part(norm(x))), as in GPT-2 and T5."""

    def forward(self, x: Tensor, *context: Any) -> Tensor:
        return x + self.change(self.norm(x), *context)

    def at(self, asked: Tensor, x: Tensor, *context: Any) -> Tensor:
        """The same for some tokens only; the part is told which."""
        return x[asked] + self.change(self.norm(x), *context, asked)
