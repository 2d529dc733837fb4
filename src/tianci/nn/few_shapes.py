"""Few different numbers of rows for products in bf16.

The library behind them makes a kernel for each shape it meets (half a millisecond, on one thread),
and packed text brings another number of tokens in every batch: a tenth of a step of BERT-mini
was kernels. So some rows that nobody reads stand behind the tokens. What is asked for does not
change, and no gradient comes from them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tianci.batch import Layout


def in_bf16(x: Tensor) -> bool:
    """Whether products with these states are made in bf16 on the CPU."""
    return (
        x.device.type == "cpu"
        and torch.is_autocast_enabled("cpu")
        and torch.get_autocast_dtype("cpu") is torch.bfloat16
    )


def plain(layout: Layout) -> bool:
    """Whether attention may find rows behind the last sequence."""
    return type(layout) is Layout and layout.prefix is None


def rounded(count: int) -> int:
    """At most a thirty-second more, and at least a multiple of 16."""
    step = max(16, 1 << count.bit_length() >> 6)
    return -(-count // step) * step


def filled(x: Tensor, least: int = 0) -> Tensor:
    """(T, W) -> (R, W), zeros behind; `least`: so many rows behind at least."""
    return longer(x, rounded(len(x) + least))


def longer(x: Tensor, rows: int) -> Tensor:
    """(T, W) -> (rows, W), zeros behind."""
    return x if len(x) == rows else F.pad(x, (0, 0, 0, rows - len(x)))
