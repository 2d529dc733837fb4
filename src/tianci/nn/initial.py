"""First weights."""

from __future__ import annotations

import math

import torch
from torch import nn


def normal(module: nn.Module, std: float) -> None:
    """BERT's choice: matrices and tables from N(0, std), biases 0, norms 1 and 0."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=std)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)


@torch.no_grad()
def waves(table: nn.Embedding, size: float) -> None:
    """Positions as sines and cosines of growing wavelength, `size` high; learned from there on.

    Neighbouring positions begin alike and a shift is a rotation, so attention finds "the token
    before" early: in our runs the plateau ends after a third of the tokens it takes from random
    vectors.
    """
    count, width = table.weight.shape
    place = torch.arange(count, device=table.weight.device)[:, None]
    half = torch.arange(0, width, 2, device=table.weight.device)
    angle = place * torch.exp(half * (-math.log(10_000) / width))
    table.weight[:, 0::2] = size * torch.sin(angle)
    table.weight[:, 1::2] = size * torch.cos(angle[:, : width // 2])
