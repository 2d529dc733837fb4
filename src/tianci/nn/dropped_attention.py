"""Attention written out, for training on the CPU: with dropout on its weights, or in bf16.

SDPA's fast kernel for the CPU cannot drop, and the one that can takes twice as long; in bf16 it is
two to five times slower than these products (LOG.md), because its backward pass is.

Shapes: Q packed queries, T packed tokens, H heads, D width of a head.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.amp import custom_bwd, custom_fwd
from torch.autograd.function import once_differentiable

from tianci.batch import Group, Layout
from tianci.nn.buckets import Bucket, buckets
from tianci.nn.dropout import draw, stretch, zeroed
from tianci.nn.patterns import Pattern

PIECE = 1 << 20  # attention weights made at a time: they stay in cache


def seen(layout: Layout, group: Group) -> Tensor:
    """(rows, 1, length, length) True where a token sees another one, in sequences with a prefix."""
    reach = layout.reach[group.start : group.start + group.tokens]
    place = torch.arange(group.length, device=reach.device)
    return place <= reach.reshape(group.rows, 1, group.length, 1)


def written_out(query: Tensor, dropout: float) -> bool:
    """Whether `DroppedAttention` is the faster way to learn."""
    learns_in_half = query.dtype is torch.bfloat16 and query.requires_grad and dropout == 0.0
    return query.device.type == "cpu" and (0.0 < dropout < 1.0 or learns_in_half)


def looking(query: Tensor, layout: Layout) -> tuple[Group, ...] | tuple[Bucket, ...]:
    """The sequences as attention takes them: similar lengths together, with a prefix equal ones."""
    if layout.prefix is not None:
        return layout.groups
    return buckets(layout.lengths, PIECE // query.shape[1])


@dataclass(frozen=True)
class Queries:
    """Where queries lie that are not all tokens: groups beside those of `looking`."""

    groups: tuple[Group, ...]


class DroppedAttention(torch.autograd.Function):
    """(Q, H, D), twice (T, H, D) -> (Q, H, D).

    Saved per piece: q, k, v, the weights, and the weights that were kept (0 elsewhere), which are
    the mask; without dropout these are the same tensor.
    """

    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=torch.bfloat16)  # type: ignore[untyped-decorator]
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        asking: Queries | Layout,
        layout: Layout,
        pattern: Pattern,
        rate: float,
    ) -> Tensor:
        mixed = query.new_empty(query.shape)
        seeing = looking(query, layout)
        asked = seeing if asking is layout else asking.groups
        pieces = list(_pieces(asked, seeing, query.shape[1]))
        sizes = [query.shape[1] * asks.rows * asks.length * looks.length for asks, looks in pieces]
        dice: Iterator[Tensor] = iter(())
        if rate:
            words = draw([sum(sizes)], query.dtype)
            dice = iter(torch.split(stretch(words, [sum(sizes)]), sizes))
        saved: list[Tensor] = []
        for asks, looks in pieces:
            q, k, v = _rows(query, asks), _rows(key, looks), _rows(value, looks)
            scores = _product(q, k.mT, 1 / math.sqrt(q.shape[-1]))
            by_row = scores.view(looks.rows, -1, *scores.shape[1:])
            if isinstance(looks, Bucket):
                if looks.places is not None:
                    by_row.masked_fill_(looks.empty, -torch.inf)
            elif layout.prefix is not None:
                by_row.masked_fill_(~seen(layout, looks), -torch.inf)
            if pattern.causal and layout.prefix is None:
                scores += scores.new_full(scores.shape[1:], -torch.inf).triu(1)
            weights = scores.softmax(-1)
            kept = zeroed(weights, next(dice).view(weights.shape), rate) if rate else weights
            _put(mixed, asks, _product(kept, v, 1 / (1 - rate)))
            saved += (q, k, v, weights, kept)
        mixed[sum(piece.tokens for piece, _ in pieces) :] = 0.0  # rows that mean nothing
        ctx.save_for_backward(*saved)
        ctx.pieces, ctx.rate, ctx.shape = pieces, rate, key.shape
        return mixed

    @staticmethod
    @custom_bwd(device_type="cpu")  # type: ignore[untyped-decorator]
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        dquery = gradient.new_empty(gradient.shape)
        dkey, dvalue = (gradient.new_empty(ctx.shape) for _ in range(2))
        saved = iter(ctx.saved_tensors)
        for asks, looks in ctx.pieces:
            q, k, v, weights, kept = (next(saved) for _ in range(5))
            scale, up = 1 / math.sqrt(q.shape[-1]), 1 / (1 - ctx.rate)
            g = _rows(gradient, asks)
            if isinstance(asks, Bucket) and asks.places is not None:
                g.view(asks.rows, -1, *g.shape[1:]).masked_fill_(asks.empty.mT, 0.0)
            _put(dvalue, looks, _product(kept.mT, g, up))
            dweights = _product(g, v.mT, up)
            if ctx.rate:
                # nothing flows where a weight was dropped; where it was 0 anyway, the next line
                # does it
                dweights = torch.ops.aten.threshold_backward(dweights, kept, 0)
            dscores = torch._softmax_backward_data(dweights, weights, -1, weights.dtype)
            _put(dquery, asks, _product(dscores, k, scale))
            _put(dkey, looks, _product(dscores.mT, q, scale))
        dquery[sum(asks.tokens for asks, _ in ctx.pieces) :] = 0.0
        for unread in (dkey, dvalue):
            unread[sum(looks.tokens for _, looks in ctx.pieces) :] = 0.0
        return dquery, dkey, dvalue, None, None, None, None


Piece = Group | Bucket


def _pieces(
    asking: Sequence[Piece], seeing: Sequence[Piece], heads: int
) -> Iterator[tuple[Piece, Piece]]:
    """The runs of equal lengths, cut so that the weights of a piece stay in cache."""
    for asks, looks in zip(asking, seeing, strict=True):
        if isinstance(looks, Bucket):  # small enough already
            yield asks, looks
            continue
        step = max(1, PIECE // (heads * asks.length * looks.length))
        for row in range(0, looks.rows, step):
            rows = min(step, looks.rows - row)
            yield (
                Group(asks.start + row * asks.length, rows, asks.length),
                Group(looks.start + row * looks.length, rows, looks.length),
            )


def _rows(packed: Tensor, piece: Piece) -> Tensor:
    """(T, H, D) -> (rows * H, length, D) of one piece."""
    if isinstance(piece, Bucket):
        part = piece.filled(packed)
    else:
        part = packed[piece.start : piece.start + piece.tokens]
    part = part.view(piece.rows, piece.length, *part.shape[1:])
    return part.transpose(1, 2).reshape(-1, piece.length, packed.shape[-1])


def _put(packed: Tensor, piece: Piece, rows: Tensor) -> None:
    """The way back: (rows * H, length, D) into their place in (T, H, D)."""
    part = packed[piece.start : piece.start + piece.tokens]
    rows = rows.view(piece.rows, -1, *rows.shape[1:]).transpose(1, 2)
    if isinstance(piece, Bucket) and piece.places is not None:
        torch.index_select(rows.reshape(-1, *part.shape[1:]), 0, piece.real, out=part)
    else:
        part.view(rows.shape).copy_(rows)


def _product(a: Tensor, b: Tensor, factor: float) -> Tensor:
    """factor * a @ b in one call."""
    return torch.baddbmm(a.new_empty(()), a, b, beta=0, alpha=factor)
