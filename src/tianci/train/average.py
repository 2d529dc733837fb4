"""The weights of many steps, averaged: steadier than those of the last one (Polyak, 1990)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

AVERAGE = "average"  # under this name beside the moments, so that a resumed run has it too


@torch.no_grad()
def follow(optimizer: torch.optim.Optimizer, decay: float, step: int) -> None:
    """Moves the average towards the weights of this step; at first faster, to forget the start."""
    decay = min(decay, (1 + step) / (10 + step))
    learned = _learned(optimizer)
    for parameter in learned:
        if AVERAGE not in optimizer.state[parameter]:
            optimizer.state[parameter][AVERAGE] = parameter.detach().clone()
    averages = [optimizer.state[parameter][AVERAGE] for parameter in learned]
    if averages:
        torch._foreach_lerp_(averages, learned, 1 - decay)


@contextmanager
def averaged(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Inside, the model has the average for its weights, where there is one."""
    _exchange(optimizer)
    try:
        yield
    finally:
        _exchange(optimizer)


def _exchange(optimizer: torch.optim.Optimizer) -> None:
    for parameter in _learned(optimizer):
        kept = optimizer.state[parameter]
        if AVERAGE in kept:
            parameter.data, kept[AVERAGE] = kept[AVERAGE], parameter.data


def _learned(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """What has been moved at least once: layers may still wait for their time."""
    return [p for group in optimizer.param_groups for p in group["params"] if optimizer.state[p]]
