"""Attention, once. Families pass in parts and a pattern; they never write attention again.

Shapes: T packed tokens, B sequences, W width, H heads, D = W / H.
"""

from __future__ import annotations

from itertools import groupby

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tianci.batch import Layout
from tianci.errors import UserError
from tianci.nn.asked_attention import attend_asked, possible
from tianci.nn.dropped_attention import DroppedAttention, seen, written_out
from tianci.nn.past import Following, Recording
from tianci.nn.patterns import Biased, Full, Pattern
from tianci.nn.watching import Watching


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
    if written_out(query, dropout):
        mixed: Tensor = DroppedAttention.apply(  # type: ignore[no-untyped-call]
            query, key, value, layout, layout, pattern, dropout
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
    behind = value[layout.tokens :]  # rows that mean nothing
    query, key, value = (x[: layout.tokens] for x in (query, key, value))
    for group, q, k, v in zip(
        layout.groups, *(torch.split(x, sizes) for x in (query, key, value)), strict=True
    ):
        shape = (group.rows, group.length, *query.shape[1:])
        q, k, v = (x.reshape(shape).transpose(1, 2) for x in (q, k, v))  # (rows, H, length, D)
        mask = None if layout.prefix is None else seen(layout, group)
        causal = pattern.causal and mask is None
        mixed = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal
        )
        outputs.append(mixed.transpose(1, 2).reshape(group.tokens, *query.shape[1:]))
    if len(behind):
        outputs.append(behind)
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
            bias = bias.masked_fill(~seen(layout, group), -torch.inf)
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
    for ((length, read), rows), q, k, v in zip(runs, queries, keys, values, strict=True):
        q = q.reshape(rows, length, *query.shape[1:]).transpose(1, 2)
        k, v = (x.reshape(rows, read, *query.shape[1:]).transpose(1, 2) for x in (k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, scale=1.0)
        outputs.append(mixed.transpose(1, 2).reshape(rows * length, *query.shape[1:]))
    return torch.cat(outputs) if outputs else query


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
        rate = self.dropout if self.training else 0.0
        if asked is not None and possible(x, layout, self.pattern):
            return self.out(attend_asked(x, self.qkv, self.heads, layout, asked, rate))  # type: ignore[no-any-return]
        q, k, v = self.qkv(x).unflatten(1, (3, self.heads, self.size)).unbind(1)
        mixed = attend(q, k, v, layout, self.pattern, rate).flatten(1)
        out: Tensor = self.out(mixed if asked is None else mixed[asked])
        return out
