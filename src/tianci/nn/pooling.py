"""From the tokens of a sequence to one vector. Padding-safe by construction: there is no padding.

Shapes: (T, W) and a layout of B sequences -> (B, W) or a multiple of W.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tianci.batch import Layout
from tianci.errors import unknown


def first(x: Tensor, layout: Layout) -> Tensor:
    return x[layout.first()]


def last(x: Tensor, layout: Layout) -> Tensor:
    return x[layout.last()]


def mean(x: Tensor, layout: Layout) -> Tensor:
    total = x.new_zeros(len(layout), x.shape[1]).index_add(0, layout.sequence, x)
    count = torch.tensor(layout.lengths, dtype=x.dtype, device=x.device)
    return total / count[:, None]


def maximum(x: Tensor, layout: Layout) -> Tensor:
    place = layout.sequence[:, None].expand_as(x)
    empty = x.new_full((len(layout), x.shape[1]), float("-inf"))
    return empty.scatter_reduce(0, place, x, "amax")


def mean_max(x: Tensor, layout: Layout) -> Tensor:
    return torch.cat([mean(x, layout), maximum(x, layout)], dim=1)


def last_mean_max(x: Tensor, layout: Layout) -> Tensor:
    """ULMFiT's concat pooling."""
    return torch.cat([last(x, layout), mean(x, layout), maximum(x, layout)], dim=1)


POOLINGS = {
    "first": first,
    "last": last,
    "mean": mean,
    "max": maximum,
    "mean-max": mean_max,
    "last-mean-max": last_mean_max,
}


def pool(x: Tensor, layout: Layout, kind: str) -> Tensor:
    """One vector per sequence."""
    if kind not in POOLINGS:
        raise unknown("pooling", kind, POOLINGS)
    return POOLINGS[kind](x, layout)


def pooled_width(kind: str, width: int) -> int:
    """How wide the pooled vector is; "attention" is a pooling with weights of its own."""
    if kind not in (*POOLINGS, "attention"):
        raise unknown("pooling", kind, (*POOLINGS, "attention"))
    return width * (1 + kind.count("-"))


class AttentionPooling(nn.Module):
    """A learned query decides how much each token counts."""

    def __init__(self, width: int):
        super().__init__()
        self.query = nn.Linear(width, 1)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        scores = self.query(x).squeeze(1)
        # softmax inside each sequence; the maximum is taken out first, as everywhere
        peak = scores.new_full((len(layout),), float("-inf"))
        peak = peak.scatter_reduce(0, layout.sequence, scores.detach(), "amax")
        weights = (scores - peak[layout.sequence]).exp()
        total = weights.new_zeros(len(layout)).index_add(0, layout.sequence, weights)
        weighted = x * (weights / total[layout.sequence])[:, None]
        return x.new_zeros(len(layout), x.shape[1]).index_add(0, layout.sequence, weighted)
