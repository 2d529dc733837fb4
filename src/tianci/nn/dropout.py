"""Dropout."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def dropout(x: Tensor, rate: float, training: bool) -> Tensor:
    """x with a share of its elements set to 0 and the others enlarged, in training."""
    return F.dropout(x, rate, training)
