"""How a part is joined to the stream that runs past it."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn


class PostNorm(nn.Module):
    """norm(x + dropout(part(x))), as in the first Transformer and in BERT."""

    def __init__(self, part: nn.Module, norm: nn.Module, dropout: float):
        super().__init__()
        self.part, self.norm, self.dropout = part, norm, dropout

    def forward(self, x: Tensor, *context: Any) -> Tensor:
        change = F.dropout(self.part(x, *context), self.dropout, self.training)
        out: Tensor = self.norm(x + change)
        return out


class PreNorm(nn.Module):
    """x + dropout(part(norm(x))), as in GPT-2 and T5."""

    def __init__(self, part: nn.Module, norm: nn.Module, dropout: float):
        super().__init__()
        self.part, self.norm, self.dropout = part, norm, dropout

    def forward(self, x: Tensor, *context: Any) -> Tensor:
        return x + F.dropout(self.part(self.norm(x), *context), self.dropout, self.training)
