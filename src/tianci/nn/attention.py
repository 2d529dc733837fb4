"""Attention, once. Families pass in parts and a pattern; they never write attention again.

Shapes: T packed tokens, B sequences, W width, H heads, D = W / H.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.amp import custom_bwd, custom_fwd
from torch.autograd.function import once_differentiable

from tianci.batch import Group, Layout
from tianci.errors import UserError
from tianci.nn.dropout import draw, stretch, zeroed
from tianci.nn.past import Following, Recording
from tianci.nn.patterns import Biased, Full, Pattern
from tianci.nn.watching import Watching

PIECE = 1 << 20  # attention weights made at a time where they are dropped: they stay in cache


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    layout: Layout,
    pattern: Pattern,
    dropout: float = 0.0,
) -> Tensor:
    """(T, H, D) each -> (T, H, D): softmax(q k' / sqrt D) v inside each sequence."""
    if isinstance(layout, Watching):
        layout.watch(query, key, pattern)
    if isinstance(pattern, Biased):
        return _attend_biased(query, key, value, layout, pattern, dropout)
    if isinstance(layout, Following):
        return layout.past.attend(query, key, value)
    if isinstance(layout, Recording):
        layout.past.record(key, value, layout)
    # The CUDA kernel has no dropout on the weights and wants half precision; else SDPA does it.
    half = query.dtype in (torch.float16, torch.bfloat16)
    if query.is_cuda and dropout == 0.0 and half and layout.prefix is None:
        return _attend_varlen(query, key, value, layout, pattern)
    if query.device.type == "cpu" and 0.0 < dropout < 1.0:
        mixed: Tensor = _Dropped.apply(  # type: ignore[no-untyped-call]
            query, key, value, layout, pattern, dropout
        )
        return mixed
    return _attend_groups(query, key, value, layout, pattern, dropout)


def _attend_groups(
    query: Tensor, key: Tensor, value: Tensor, layout: Layout, pattern: Pattern, dropout: float
) -> Tensor:
    """One SDPA call per run of equal lengths: no padding and no mask at all.

    Measured on 2 cores against padding inside and masking: 3 to 19 times faster on ragged batches,
    equal on even ones.
    """
    outputs: list[Tensor] = []
    sizes = [group.tokens for group in layout.groups]
    for group, q, k, v in zip(
        layout.groups, *(torch.split(x, sizes) for x in (query, key, value)), strict=True
    ):
        shape = (group.rows, group.length, *query.shape[1:])
        q, k, v = (x.reshape(shape).transpose(1, 2) for x in (q, k, v))  # (rows, H, length, D)
        seen = None if layout.prefix is None else _seen(layout, group)
        causal = pattern.causal and seen is None
        mixed = F.scaled_dot_product_attention(
            q, k, v, attn_mask=seen, dropout_p=dropout, is_causal=causal
        )
        outputs.append(mixed.transpose(1, 2).reshape(group.tokens, *query.shape[1:]))
    return torch.cat(outputs) if outputs else query


def _attend_biased(
    query: Tensor, key: Tensor, value: Tensor, layout: Layout, pattern: Biased, dropout: float
) -> Tensor:
    """The same with a bias on the scores, and no scale."""
    if isinstance(layout, Following):
        return layout.past.attend(query, key, value, pattern)
    if isinstance(layout, Recording):
        layout.past.record(key, value, layout)
    outputs: list[Tensor] = []
    sizes = [group.tokens for group in layout.groups]
    for group, q, k, v in zip(
        layout.groups, *(torch.split(x, sizes) for x in (query, key, value)), strict=True
    ):
        shape = (group.rows, group.length, *query.shape[1:])
        q, k, v = (x.reshape(shape).transpose(1, 2) for x in (q, k, v))  # (rows, H, length, D)
        bias = pattern.bias(group.length, group.length)[None].to(q.dtype)
        if layout.prefix is not None:
            bias = bias.masked_fill(~_seen(layout, group), -torch.inf)
        elif pattern.causal:
            bias = bias + bias.new_full(bias.shape[-2:], -torch.inf).triu(1)
        mixed = F.scaled_dot_product_attention(q, k, v, bias, dropout, scale=1.0)
        outputs.append(mixed.transpose(1, 2).reshape(group.tokens, *query.shape[1:]))
    return torch.cat(outputs) if outputs else query


def attend_across(
    query: Tensor, key: Tensor, value: Tensor, layout: Layout, source: Layout, dropout: float
) -> Tensor:
    """(T, H, D) and twice (S, H, D) -> (T, H, D): each sequence sees its source; no scale (T5)."""
    if isinstance(layout, Recording):
        layout.past.record_source(key, value, source)
    outputs: list[Tensor] = []
    runs = [
        (lengths, len(list(same)))
        for lengths, same in groupby(zip(layout.lengths, source.lengths, strict=True))
    ]
    queries = torch.split(query, [rows * n for (n, _), rows in runs])
    keys, values = (torch.split(x, [rows * n for (_, n), rows in runs]) for x in (key, value))
    for ((length, seen), rows), q, k, v in zip(runs, queries, keys, values, strict=True):
        q = q.reshape(rows, length, *query.shape[1:]).transpose(1, 2)
        k, v = (x.reshape(rows, seen, *query.shape[1:]).transpose(1, 2) for x in (k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, scale=1.0)
        outputs.append(mixed.transpose(1, 2).reshape(rows * length, *query.shape[1:]))
    return torch.cat(outputs) if outputs else query


def _seen(layout: Layout, group: Group) -> Tensor:
    """(rows, 1, length, length) True where a token sees another one, in sequences with a prefix."""
    reach = layout.reach[group.start : group.start + group.tokens]
    place = torch.arange(group.length, device=reach.device)
    return place <= reach.reshape(group.rows, 1, group.length, 1)


def _attend_varlen(
    query: Tensor, key: Tensor, value: Tensor, layout: Layout, pattern: Pattern
) -> Tensor:
    """The variable-length kernel on packed tokens."""
    from torch.nn.attention.varlen import varlen_attn

    starts = layout.starts.to(torch.int32)
    window = (-1, 0) if pattern.causal else (-1, -1)
    mixed = varlen_attn(
        query, key, value, starts, starts, layout.longest, layout.longest, window_size=window
    )
    assert isinstance(mixed, Tensor)  # a pair only when the log-sum-exp is asked for
    return mixed


class _Dropped(torch.autograd.Function):
    """Attention with dropout on the weights, written out; its speed is near SDPA's without dropout.

    SDPA's fast kernel for the CPU cannot drop, and the one that can takes twice as long. Saved per
    piece: q, k, v, the weights, and the weights that were kept (0 elsewhere), which are the mask.
    """

    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=torch.float32)  # type: ignore[untyped-decorator]
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        layout: Layout,
        pattern: Pattern,
        rate: float,
    ) -> Tensor:
        mixed = query.new_empty(query.shape)
        pieces = list(_pieces(layout, query.shape[1]))
        sizes = [query.shape[1] * piece.tokens * piece.length for piece in pieces]
        words = draw([sum(sizes)], query.dtype)
        dice = iter(torch.split(stretch(words, [sum(sizes)]), sizes))
        saved: list[Tensor] = []
        for piece in pieces:
            q, k, v = (_rows(x, piece) for x in (query, key, value))
            scores = _product(q, k.mT, 1 / math.sqrt(q.shape[-1]))
            if layout.prefix is not None:
                by_row = scores.view(piece.rows, -1, piece.length, piece.length)
                by_row.masked_fill_(~_seen(layout, piece), -torch.inf)
            elif pattern.causal:
                scores += scores.new_full(scores.shape[1:], -torch.inf).triu(1)
            weights = scores.softmax(-1)
            kept = zeroed(weights, next(dice).view(weights.shape), rate)
            _put(mixed, piece, _product(kept, v, 1 / (1 - rate)))
            saved += (q, k, v, weights, kept)
        ctx.save_for_backward(*saved)
        ctx.pieces, ctx.rate = pieces, rate
        return mixed

    @staticmethod
    @custom_bwd(device_type="cpu")  # type: ignore[untyped-decorator]
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        dquery, dkey, dvalue = (gradient.new_empty(gradient.shape) for _ in range(3))
        saved = iter(ctx.saved_tensors)
        for piece in ctx.pieces:
            q, k, v, weights, kept = (next(saved) for _ in range(5))
            scale, up = 1 / math.sqrt(q.shape[-1]), 1 / (1 - ctx.rate)
            g = _rows(gradient, piece)
            _put(dvalue, piece, _product(kept.mT, g, up))
            # nothing flows where a weight was dropped; where it was 0 anyway, the next line does it
            dweights = torch.ops.aten.threshold_backward(_product(g, v.mT, up), kept, 0)
            dscores = torch._softmax_backward_data(dweights, weights, -1, weights.dtype)
            _put(dquery, piece, _product(dscores, k, scale))
            _put(dkey, piece, _product(dscores.mT, q, scale))
        return dquery, dkey, dvalue, None, None, None


def _pieces(layout: Layout, heads: int) -> Iterator[Group]:
    """The runs of equal lengths, cut so that the weights of a piece stay in cache."""
    for start, rows, length in layout.groups:
        step = max(1, PIECE // (heads * length * length))
        for row in range(0, rows, step):
            yield Group(start + row * length, min(step, rows - row), length)


def _rows(packed: Tensor, piece: Group) -> Tensor:
    """(T, H, D) -> (rows * H, length, D) of one piece."""
    return _cut(packed, piece).reshape(-1, piece.length, packed.shape[-1])


def _put(packed: Tensor, piece: Group, rows: Tensor) -> None:
    """The way back: (rows * H, length, D) into their place in (T, H, D)."""
    part = _cut(packed, piece)
    part.copy_(rows.view(part.shape))


def _cut(packed: Tensor, piece: Group) -> Tensor:
    """(T, H, D) -> (rows, H, length, D) of one piece, without a copy."""
    part = packed[piece.start : piece.start + piece.tokens]
    return part.view(piece.rows, piece.length, *part.shape[1:]).transpose(1, 2)


def _product(a: Tensor, b: Tensor, factor: float) -> Tensor:
    """factor * a @ b in one call."""
    return torch.baddbmm(a.new_empty(()), a, b, beta=0, alpha=factor)


class SelfAttention(nn.Module):
    """Query, key and value from one product, attention by `pattern`, then an output product."""

    def __init__(self, width: int, heads: int, dropout: float, pattern: Pattern | None = None):
        super().__init__()
        if width % heads:
            raise UserError(f"{heads} heads do not divide a width of {width}; change one of them")
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.heads, self.size = heads, width // heads
        self.dropout, self.pattern = dropout, pattern or Full()

    def forward(self, x: Tensor, layout: Layout, asked: Tensor | None = None) -> Tensor:
        """(T, W), or (A, W) where only some tokens are asked for."""
        q, k, v = self.qkv(x).unflatten(1, (3, self.heads, self.size)).unbind(1)
        mixed = attend(q, k, v, layout, self.pattern, self.dropout if self.training else 0.0)
        mixed = mixed.flatten(1)
        out: Tensor = self.out(mixed if asked is None else mixed[asked])
        return out
