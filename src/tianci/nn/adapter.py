"""Adapters (Houlsby and others, 2019): two small bottlenecks per block; the rest stays frozen."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from tianci.errors import UserError
from tianci.nn.residual import Residual

MARK = "adapter."


class Adapter(nn.Module):
    """x + up(gelu(down(x))): begins as (nearly) nothing."""

    def __init__(self, width: int, size: int):
        super().__init__()
        self.down, self.up = nn.Linear(width, size), nn.Linear(size, width)
        nn.init.normal_(self.down.weight, std=0.02)
        nn.init.zeros_(self.down.bias)
        nn.init.normal_(self.up.weight, std=1e-3)
        nn.init.zeros_(self.up.bias)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.up(F.gelu(self.down(x)))
        return out


def insert(body: nn.Module, width: int, size: int) -> None:
    """Puts an adapter behind every part of every block, before it joins the stream."""
    found = [m for m in body.modules() if isinstance(m, Residual)]
    if not found:
        raise UserError(f"{type(body).__name__} has no blocks to put adapters into")
    for residual in found:
        residual.adapter = Adapter(width, size)


def is_adapter(name: str) -> bool:
    """Whether a parameter's name is that of an adapter."""
    return MARK in name
