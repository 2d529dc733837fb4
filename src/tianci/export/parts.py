"""The parts of encoders as nodes: what `nn` and `models` do on packed tokens, here on a grid.

Shapes: B texts, L tokens of the longest one, W width, H heads, D = W / H.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from onnx import TensorProto
from torch import Tensor, nn

from tianci.errors import UserError
from tianci.export.graph import Graph, scaled
from tianci.models.albert import RepeatedStack
from tianci.models.base import Encoder
from tianci.nn.adapter import Adapter
from tianci.nn.attention import SelfAttention
from tianci.nn.embedding import FactorisedEmbedding, OneSegment, PlaceEmbedding, SumEmbedding
from tianci.nn.feedforward import FeedForward
from tianci.nn.patterns import Full
from tianci.nn.residual import PostNorm
from tianci.nn.stack import Block, Stack

FAR = -1e9  # what is added to scores of padding: the softmax makes it 0


@dataclass(frozen=True)
class Inputs:
    """What a text is given as."""

    ids: str  # (B, L)
    mask: str  # (B, L) 1 where there is a token
    segments: str | None  # (B, L)
    inside: str  # (B, L, 1) the mask as numbers
    barred: str  # (B, 1, 1, L) 0, and FAR at padding
    asked: str | None = None  # (A,) tokens of which the last layer is wanted, where not of all

    def places(self, graph: Graph, table: str) -> str:
        """The vectors of the places of all tokens."""
        length = graph.op("Slice", graph.op("Shape", self.ids), graph.integers(1),
                          graph.integers(2))  # fmt: skip
        return graph.op("Slice", table, graph.integers(0), length)

    def attend(self, graph: Graph, joined: str, heads: int, size: int) -> str:
        """(B, L, 3 W) queries, keys and values, the queries scaled -> (B, L, W)."""
        shape = graph.integers(0, 0, heads, size)
        query, key, value = (
            graph.op("Transpose", graph.op("Reshape", one, shape), perm=turned)
            for one, turned in zip(
                graph.several("Split", 3, joined, axis=2),
                ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]),
                strict=True,
            )
        )
        scores = graph.op("Add", graph.op("MatMul", query, key), self.barred)
        mixed = graph.op("MatMul", graph.op("Softmax", scores, axis=-1), value)
        mixed = graph.op("Transpose", mixed, perm=[0, 2, 1, 3])
        return graph.op("Reshape", mixed, graph.integers(0, 0, heads * size))


def inputs(graph: Graph, model: Encoder) -> Inputs:
    """The inputs by their usual names; no token_type_ids where the model has no segments."""
    grid = ("batch", "length")
    ids, mask = graph.input("input_ids", grid), graph.input("attention_mask", grid)
    segments = graph.input("token_type_ids", grid) if reads_segments(model) else None
    with graph.within("mask"):
        numbers = graph.op("Cast", mask, to=TensorProto.FLOAT)
        inside = graph.op("Unsqueeze", numbers, graph.integers(2))
        empty = graph.op("Sub", graph.number(1.0), numbers)
        barred = graph.op("Mul", empty, graph.number(FAR))
        barred = graph.op("Unsqueeze", barred, graph.integers(1, 2))
    return Inputs(ids, mask, segments, inside, barred)


def reads_segments(model: Encoder) -> bool:
    """Whether it matters to the model which of two texts a token belongs to."""
    part = model.embedding
    return isinstance(part, SumEmbedding) and not isinstance(part.segment, OneSegment)


def states(graph: Graph, model: Encoder, given: Inputs) -> list[str]:
    """(B, L, W) of each layer, the embedding first."""
    layers = [_embedding(graph, model.embedding, given)]
    blocks = _blocks(model.stack)
    for number, block in enumerate(blocks, 1):
        with graph.within(f"layer.{number - 1}"):
            asked = given.asked if number == len(blocks) else None
            x = _residual(graph, block.attention, layers[-1], given, "attention", asked)
            layers.append(_residual(graph, block.feed, x, given, "feed"))
    return layers


def unsupported(part: object) -> UserError:
    return UserError(
        f"export does not know the part {type(part).__name__} of this model; serve it with tianci "
        "serve instead"
    )


def _blocks(stack: Stack) -> list[Block]:
    blocks = list(stack.blocks) * (stack.times if isinstance(stack, RepeatedStack) else 1)
    if type(stack) not in (Stack, RepeatedStack):
        raise unsupported(stack)
    found = [block for block in blocks if type(block) is Block]
    if len(found) < len(blocks):
        raise unsupported(next(block for block in blocks if type(block) is not Block))
    return found


def _embedding(graph: Graph, part: PlaceEmbedding, given: Inputs) -> str:
    if type(part) not in (PlaceEmbedding, SumEmbedding, FactorisedEmbedding):
        raise unsupported(part)
    with graph.within("embedding"):
        total = graph.rows(part.token.weight, given.ids, "token")
        # RoBERTa has rows that are never read before the first place
        table = part.position.weight[getattr(part.position, "offset", 0) :]
        total = graph.op("Add", total, given.places(graph, graph.weight(table, "position")))
        if isinstance(part, SumEmbedding):
            if given.segments is None:
                of_all = graph.weight(part.segment.weight[0], "segment")
            else:
                both = graph.weight(part.segment.weight, "segment")
                of_all = graph.op("Gather", both, given.segments)
            total = graph.op("Add", total, of_all)
        x = graph.norm(total, _layer_norm(part.norm), "norm")
        return graph.linear(x, part.widen, "widen") if isinstance(part, FactorisedEmbedding) else x


def _residual(
    graph: Graph, part: nn.Module, x: str, given: Inputs, name: str, asked: str | None = None
) -> str:
    """norm(x + part(x)), with the adapter that may stand behind the part."""
    if type(part) is not PostNorm:
        raise unsupported(part)
    with graph.within(name):
        inner = part.part
        if type(inner) is SelfAttention:
            change = _attention(graph, inner, x, given, asked)
            x = x if asked is None else graph.op("Gather", x, asked)
        elif type(inner) is FeedForward:
            up = activate(graph, inner.activation, graph.linear(x, inner.up, "up"))
            change = graph.linear(up, inner.down, "down")
        else:
            raise unsupported(inner)
        if part.adapter is not None:
            change = _adapter(graph, part.adapter, change)
        return graph.norm(graph.op("Add", x, change), _layer_norm(part.norm), "norm")


def _adapter(graph: Graph, part: nn.Module, x: str) -> str:
    if not isinstance(part, Adapter):
        raise unsupported(part)
    with graph.within("adapter"):
        hidden = activate(graph, F.gelu, graph.linear(x, part.down, "down"))
        return graph.op("Add", x, graph.linear(hidden, part.up, "up"))


def _attention(graph: Graph, part: SelfAttention, x: str, given: Inputs, asked: str | None) -> str:
    if type(part.pattern) is not Full:
        raise unsupported(part.pattern)
    width = part.heads * part.size
    # the scale belongs to the queries: their rows of the matrix take it in
    scale = torch.ones(3 * width)
    scale[:width] = scaled(part.size)
    joined = graph.product(x, *_kept(graph, part.qkv, scale), "qkv")
    mixed = given.attend(graph, joined, part.heads, part.size)
    if asked is not None:
        mixed = graph.op("Gather", mixed, asked)
    return graph.linear(mixed, part.out, "out")


def _kept(graph: Graph, layer: nn.Linear, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Scaled weights; kept, so that a block that runs twice has them once."""
    if layer not in graph.made:
        with torch.inference_mode():
            weight = layer.weight.cpu() * scale[:, None]
            graph.made[layer] = (weight, layer.bias.cpu() * scale)
    return graph.made[layer]


def activate(graph: Graph, function: Callable[..., Any], x: str) -> str:
    """An activation; GELU in the pieces that runtimes know how to join again."""
    if function is F.relu:
        return graph.op("Relu", x)
    if function is torch.tanh:
        return graph.op("Tanh", x)
    if function is F.silu:
        return graph.op("Mul", x, graph.op("Sigmoid", x))
    half, one = graph.number(0.5), graph.number(1.0)
    if function is F.gelu:
        inner = graph.op("Erf", graph.op("Div", x, graph.number(float(np.sqrt(2.0)))))
    elif isinstance(function, partial) and function.keywords == {"approximate": "tanh"}:
        cube = graph.op("Mul", graph.op("Mul", graph.op("Mul", x, x), x), graph.number(0.044715))
        scale = graph.number(float(np.sqrt(2.0 / np.pi)))
        inner = graph.op("Tanh", graph.op("Mul", graph.op("Add", x, cube), scale))
    else:
        raise UserError("export does not know the activation of this model")
    return graph.op("Mul", graph.op("Mul", x, graph.op("Add", inner, one)), half)


def _layer_norm(part: nn.Module) -> nn.LayerNorm:
    if type(part) is not nn.LayerNorm:
        raise unsupported(part)
    return part
