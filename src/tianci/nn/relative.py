"""Attention that knows places by their distance (T5): a learned number per bucket and head.

Shapes: T tokens, S tokens of the source, W width, H heads, D width of a head.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tianci.batch import Layout
from tianci.nn import attention
from tianci.nn.dropout import dropout
from tianci.nn.past import Following
from tianci.nn.patterns import Biased


def buckets(queries: int, keys: int, count: int, distance: int, both: bool) -> Tensor:
    """(queries, keys) the bucket of each distance: one each for the near ones, then ever wider
    ones up to `distance`; with `both` half of them are for keys behind the query."""
    return bucket_of(torch.arange(keys) - torch.arange(queries)[:, None], count, distance, both)


def bucket_of(away: Tensor, count: int, distance: int, both: bool) -> Tensor:
    """The bucket of each distance from a query to a key (negative: the key stands before it)."""
    base = torch.zeros_like(away)
    if both:
        count //= 2
        base = (away > 0) * count
        away = away.abs()
    else:
        away = (-away).clamp(min=0)
    exact = count // 2
    far = torch.log(away.float() / exact) / math.log(distance / exact) * (count - exact)
    wide = (exact + far.clamp(min=0).long()).clamp(max=count - 1)
    return base + torch.where(away < exact, away, wide)


class RelativeBias(nn.Module):
    """A bias for each pair of places, the same in all layers of a stack."""

    def __init__(self, heads: int, count: int, distance: int, causal: bool):
        super().__init__()
        self.table = nn.Embedding(count, heads)
        self.distance, self.causal = distance, causal

    def pattern(self) -> Biased:
        """The pattern for one pass; biases of lengths that come again are made once."""
        known: dict[tuple[int, int], Tensor] = {}
        later: dict[int, Tensor] = {}

        def bias(queries: int, keys: int) -> Tensor:
            if (queries, keys) not in known:
                known[queries, keys] = self(queries, keys)
            return known[queries, keys]

        def ahead(places: Sequence[int], keys: int) -> Tensor:
            if keys not in later:  # the places of a pass are the same in all layers
                rows = torch.tensor(places)[:, None]
                later[keys] = self._looked_up(torch.arange(keys) - rows).mT[:, :, None]
            return later[keys]

        return Biased(bias, ahead, self.causal)

    def forward(self, queries: int, keys: int) -> Tensor:
        """(H, queries, keys)."""
        away = torch.arange(keys) - torch.arange(queries)[:, None]
        return self._looked_up(away).permute(2, 0, 1)

    def _looked_up(self, away: Tensor) -> Tensor:
        """(...) distances -> (..., H)."""
        place = bucket_of(away, self.table.num_embeddings, self.distance, not self.causal)
        out: Tensor = self.table(place.to(self.table.weight.device))
        return out


class RelativeAttention(nn.Module):
    """Self-attention without biases and scale; heads may be of any size."""

    def __init__(self, width: int, heads: int, size: int, dropout: float):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * heads * size, bias=False)
        self.out = nn.Linear(heads * size, width, bias=False)
        self.heads, self.size, self.dropout = heads, size, dropout

    def forward(self, x: Tensor, layout: Layout, pattern: Biased) -> Tensor:
        q, k, v = self.qkv(x).unflatten(1, (3, self.heads, self.size)).unbind(1)
        drop = self.dropout if self.training else 0.0
        out: Tensor = self.out(attention.attend(q, k, v, layout, pattern, drop).flatten(1))
        return out


class CrossAttention(nn.Module):
    """A target looks at its source: (T, W) and (S, W) -> (T, W)."""

    def __init__(self, width: int, heads: int, size: int, dropout: float):
        super().__init__()
        self.query = nn.Linear(width, heads * size, bias=False)
        self.kv = nn.Linear(width, 2 * heads * size, bias=False)
        self.out = nn.Linear(heads * size, width, bias=False)
        self.heads, self.size, self.dropout = heads, size, dropout

    def forward(self, x: Tensor, layout: Layout, source: Tensor, source_layout: Layout) -> Tensor:
        q = self.query(x).unflatten(1, (self.heads, self.size))
        if isinstance(layout, Following):  # its source has been read
            mixed = layout.past.attend_across(q)
        else:
            k, v = self.kv(source).unflatten(1, (2, self.heads, self.size)).unbind(1)
            drop = self.dropout if self.training else 0.0
            mixed = attention.attend_across(q, k, v, layout, source_layout, drop)
        out: Tensor = self.out(mixed.flatten(1))
        return out


class RelativeBlock(nn.Module):
    """Self-attention, in a decoder also attention to the source, feed-forward, each wrapped."""

    def __init__(self, attention: nn.Module, cross: nn.Module | None, feed: nn.Module):
        super().__init__()
        self.attention, self.cross, self.feed = attention, cross, feed

    def forward(self, x: Tensor, layout: Layout, pattern: Biased, *source: Any) -> Tensor:
        x = self.attention(x, layout, pattern)
        if self.cross is not None:
            x = self.cross(x, layout, *source)
        out: Tensor = self.feed(x)
        return out


class RelativeStack(nn.Module):
    """Blocks with one bias for all of them, and a norm and dropout at the end."""

    def __init__(
        self, blocks: Sequence[nn.Module], bias: RelativeBias, norm: nn.Module, dropout: float
    ):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.bias, self.norm, self.dropout = bias, norm, dropout

    def forward(self, x: Tensor, layout: Layout, *source: Any) -> list[Tensor]:
        layers, pattern = [x], self.bias.pattern()
        for block in self.blocks:
            layers.append(block(layers[-1], layout, pattern, *source))
        return [*layers[:-1], dropout(self.norm(layers[-1]), self.dropout, self.training)]

    def depth(self) -> list[nn.Module]:
        """The blocks; the bias goes with the first, the norm with the last."""
        parts: list[list[nn.Module]] = [[block] for block in self.blocks]
        parts[0].append(self.bias)
        parts[-1].append(self.norm)
        return [nn.ModuleList(part) for part in parts]
