"""Attention weights, for pictures: `attend` never makes them, so a layout that wants to see them
computes them beside it.

Shapes: n tokens of a sequence, H heads, D width of a head.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tianci.batch import Layout
from tianci.nn.patterns import Biased, Pattern


class Watching(Layout):
    """Sequences whose attention weights are written down, layer by layer, as the model runs."""

    def __init__(self, layout: Layout):
        super().__init__(layout.lengths, layout.device, layout.prefix)
        self.weights: list[list[Tensor]] = []  # per layer, per sequence: (H, n, n)

    def watch(self, query: Tensor, key: Tensor, pattern: Pattern) -> None:
        """Writes down what a layer's (T, H, D) make of each other."""
        places = zip(
            *(torch.split(x.detach(), list(self.lengths)) for x in (query, key, self.position)),
            strict=True,
        )
        reach = None if self.prefix is None else torch.split(self.reach, list(self.lengths))
        found: list[Tensor] = []
        for number, (q, k, place) in enumerate(places):
            scores = torch.einsum("qhd,khd->hqk", q.float(), k.float())
            if isinstance(pattern, Biased):
                scores = scores + pattern.bias(len(q), len(k)).detach().float()
            else:
                scores = scores / math.sqrt(q.shape[-1])
            if reach is not None:
                scores = scores.masked_fill(place > reach[number][:, None], -torch.inf)
            elif pattern.causal:
                scores = scores.masked_fill(place > place[:, None], -torch.inf)
            found.append(scores.softmax(-1))
        self.weights.append(found)
