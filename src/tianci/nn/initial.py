"""First weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

DRAWN = ("normal_", "uniform_", "trunc_normal_", "kaiming_uniform_", "kaiming_normal_",
         "xavier_uniform_", "xavier_normal_", "orthogonal_")  # fmt: skip


class _Undrawn(TorchFunctionMode):
    """Random weights are left as they are: drawing them without memory would import torch's
    compiler, which takes longer than all the rest of a short command."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in DRAWN:
            return args[0] if args else kwargs.get("tensor")
        return func(*args, **kwargs)


@contextmanager
def nothing() -> Iterator[None]:
    """Modules that are built inside have shapes, but no memory and no first weights."""
    with torch.device("meta"), _Undrawn():
        yield


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
    if table.weight.is_meta:
        return
    count, width = table.weight.shape
    place = torch.arange(count, device=table.weight.device)[:, None]
    half = torch.arange(0, width, 2, device=table.weight.device)
    angle = place * torch.exp(half * (-math.log(10_000) / width))
    table.weight[:, 0::2] = size * torch.sin(angle)
    table.weight[:, 1::2] = size * torch.cos(angle[:, : width // 2])
