"""The activations that public checkpoints name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from tianci.errors import unknown

Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: dict[str, Activation] = {
    "gelu": F.gelu,
    "gelu_new": partial(F.gelu, approximate="tanh"),
    "gelu_pytorch_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
    "swish": F.silu,
    "tanh": torch.tanh,
}


def activation(name: object) -> Activation:
    """The function of that name; files of others may hold anything in its place."""
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise unknown("activation", str(name), ACTIVATIONS)
    return ACTIVATIONS[name]
