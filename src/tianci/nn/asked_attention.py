"""Attention of the last block, where only some tokens ask: no queries are made for the others.

Where one token of each sequence asks (the first one, for a classifier), there are no keys and
values either: q'(K x) is (K'q)'x and a sum of V x is V times the sum, so a vector per head meets
the states themselves. That is T * H * W work instead of T * W * W; the result is the same.

Shapes: T packed tokens, A that ask, B sequences, W width, H heads, D = W / H.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tianci.batch import Group, Layout
from tianci.nn.buckets import STEP, Bucket
from tianci.nn.dropout import dropout
from tianci.nn.dropped_attention import DroppedAttention, Queries, looking, written_out
from tianci.nn.few_shapes import longer
from tianci.nn.patterns import Full, Pattern


def possible(x: Tensor, layout: Layout, pattern: Pattern) -> bool:
    """Whether nothing else wants to see queries, keys or values; other devices have kernels."""
    plain = type(layout) is Layout and layout.prefix is None and isinstance(pattern, Full)
    return plain and x.device.type == "cpu"


def attend_asked(
    x: Tensor, qkv: nn.Linear, heads: int, layout: Layout, asked: Tensor, rate: float
) -> Tensor:
    """(T, W) -> (A, W): what attention brings to the tokens that ask, in their order.

    Behind both there may be rows that mean nothing (few_shapes.py); they come back as zeros.
    """
    width = x.shape[1]
    size = width // heads
    query = F.linear(x[asked], qkv.weight[:width], qkv.bias[:width]).view(-1, heads, size)
    rows, real = len(asked), asked[asked < layout.tokens]
    if not len(real):  # a piece of a batch in which nothing is hidden
        return query.flatten(1)
    query, owner = query[: len(real)], layout.sequence[real]
    if len(real) == len(layout) and torch.equal(owner, torch.arange(len(layout))):
        alone = _single(x[: layout.tokens], query, qkv, layout, rate)
        return longer(alone.flatten(1), rows)
    pairs = F.linear(x, qkv.weight[width:], qkv.bias[width:]).view(-1, 2, heads, size)
    key, value = pairs.unbind(1)
    groups = looking(query, layout) if written_out(query, rate) else layout.groups
    queries, fill, place = spread(owner.numpy(), groups)
    mixed = _several(query[torch.from_numpy(fill)], key, value, queries, layout, rate)
    return longer(mixed[torch.from_numpy(place)].flatten(1), rows)


Ids = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


def spread(owner: Ids, groups: Sequence[Group | Bucket]) -> tuple[Queries, Ids, Ids]:
    """Equal numbers of queries for all sequences of a group: (where these queries lie, which
    asking token each one is, where each asking token went)."""
    order = np.argsort(owner, kind="stable")
    counts = np.bincount(owner, minlength=sum(group.rows for group in groups))
    found: list[Group] = []
    start = row = 0
    for group in groups:
        most = max(1, int(counts[row : row + group.rows].max()))
        if isinstance(group, Bucket):
            most = -(-most // STEP) * STEP  # few different shapes
        found.append(Group(start, group.rows, most))
        start, row = start + found[-1].tokens, row + group.rows
    begins = np.concatenate([g.start + g.length * np.arange(g.rows) for g in found])
    nth = np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner[order]]
    place = np.empty(len(owner), np.int64)
    place[order] = begins[owner[order]] + nth
    fill = np.zeros(start, np.int64)  # places that nobody fills ask again for the first token
    fill[place] = np.arange(len(owner))
    return Queries(tuple(found)), fill, place


def _several(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    asking: Queries,
    layout: Layout,
    rate: float,
) -> Tensor:
    """(Q, H, D) queries in groups, (T, H, D) keys and values -> (Q, H, D)."""
    if written_out(query, rate):
        dropped: Tensor = DroppedAttention.apply(  # type: ignore[no-untyped-call]
            query, key, value, asking, layout, Full(), rate
        )
        return dropped
    outputs: list[Tensor] = []
    queries = torch.split(query, [group.tokens for group in asking.groups])
    sizes = [group.tokens for group in layout.groups]
    key, value = key[: layout.tokens], value[: layout.tokens]
    for asks, looks, q, k, v in zip(
        asking.groups, layout.groups, queries, torch.split(key, sizes), torch.split(value, sizes),
        strict=True,
    ):  # fmt: skip
        q = q.view(asks.rows, asks.length, *q.shape[1:]).transpose(1, 2)
        k, v = (x.view(looks.rows, looks.length, *x.shape[1:]).transpose(1, 2) for x in (k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=rate)
        outputs.append(mixed.transpose(1, 2).reshape(asks.tokens, *query.shape[1:]))
    return torch.cat(outputs)


def _single(x: Tensor, query: Tensor, qkv: nn.Linear, layout: Layout, rate: float) -> Tensor:
    """(T, W), (B, H, D) -> (B, H, D): one query for each sequence."""
    heads, size = query.shape[1:]
    _, keys, values = qkv.weight.view(3, heads, size, -1).unbind(0)  # (H, D, W) each
    # a key's bias adds the same to all scores of a query: softmax does not see it
    looking = torch.bmm(query.transpose(0, 1) / math.sqrt(size), keys).transpose(0, 1)  # (B, H, W)
    sums: list[Tensor] = []
    shares: list[Tensor] = []
    states = torch.split(x, [group.tokens for group in layout.groups])
    looks = torch.split(looking, [group.rows for group in layout.groups])
    for group, part, look in zip(layout.groups, states, looks, strict=True):
        part = part.view(group.rows, group.length, -1)
        weights = dropout(torch.bmm(look, part.mT).softmax(-1), rate, True)  # (rows, H, length)
        sums.append(torch.bmm(weights, part))
        shares.append(weights.sum(-1))
    mixed = torch.bmm(torch.cat(sums).transpose(0, 1), values.mT).transpose(0, 1)
    bias = qkv.bias.view(3, heads, size)[2]
    return mixed + torch.cat(shares)[:, :, None] * bias  # weights that are dropped add up to others
