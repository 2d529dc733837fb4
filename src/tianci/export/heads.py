"""Poolings and heads as nodes.

Shapes: B texts, L tokens of the longest one, W width.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from onnx import TensorProto
from torch import Tensor, nn

from tianci.export.graph import Graph, plain
from tianci.export.parts import FAR, Inputs, activate, unsupported
from tianci.models import distilbert, roberta
from tianci.nn.heads import VocabularyHead
from tianci.nn.recurrent import PackedLSTM
from tianci.nn.task_heads import LayerMix, PlannedHead, SequenceHead, TokenHead


def head(graph: Graph, part: nn.Module, layers: Sequence[str], given: Inputs) -> str:
    """What a task's head says: (B, outputs), or (B, L, outputs) where it speaks of tokens."""
    with graph.within("head"):
        last = layers[-1]
        if isinstance(part, TokenHead):
            return graph.linear(last, part.linear, "linear", exact=True)
        if isinstance(part, PlannedHead):
            return _planned(graph, part, layers, given)
        first = pooled(graph, "first", last, given)
        if isinstance(part, SequenceHead):
            hidden = graph.op("Tanh", graph.linear(first, part.pooler.dense, "dense", exact=True))
            return graph.linear(hidden, part.linear, "linear", exact=True)
        if isinstance(part, roberta.FirstTokenHead | distilbert.FirstTokenHead):
            hidden = graph.linear(first, part.dense, "dense", exact=True)
            squeeze = torch.tanh if isinstance(part, roberta.FirstTokenHead) else F.relu
            hidden = activate(graph, squeeze, hidden)
            return graph.linear(hidden, part.linear, "linear", exact=True)
        raise unsupported(part)


def vocabulary(graph: Graph, part: nn.Module, table: Tensor, last: str) -> str:
    """(B, L, V) by the token table, which the embedding uses too."""
    if not isinstance(part, VocabularyHead) or not isinstance(part.norm, nn.LayerNorm):
        raise unsupported(part)
    with graph.within("head"):
        x = activate(graph, part.activation, graph.linear(last, part.dense, "dense"))
        x = graph.norm(x, part.norm, "norm")
        if graph.int8:
            return graph.product(x, table, part.bias, "vocabulary")
        # the same weight turned when the file is loaded: it is in the file once
        turned = graph.op("Transpose", graph.weight(table, "weight"), perm=[1, 0])
        return graph.op("Add", graph.op("MatMul", x, turned), graph.weight(part.bias, "bias"))


def pooled(graph: Graph, kind: str, x: str, given: Inputs) -> str:
    """(B, L, W) -> (B, W), or a multiple of W; padding counts for nothing."""
    if kind == "first":
        return graph.op("Gather", x, graph.constant(np.array(0, np.int64), "first"), axis=1)
    if kind == "last":
        count = graph.op("ReduceSum", given.mask, graph.integers(1), keepdims=1)
        place = graph.op("Sub", count, graph.integers(1))
        return graph.op("GatherND", x, place, batch_dims=1)
    if kind == "mean":
        kept = graph.op("Mul", x, given.inside)
        total = graph.op("ReduceSum", kept, graph.integers(1), keepdims=0)
        count = graph.op("ReduceSum", given.inside, graph.integers(1), keepdims=0)
        return graph.op("Div", total, graph.op("Max", count, graph.number(1.0)))
    if kind == "max":
        there = graph.op("Cast", given.inside, to=TensorProto.BOOL)
        lowest = graph.number(float(np.finfo(np.float32).min))
        kept = graph.op("Where", there, x, lowest)
        return graph.op("ReduceMax", kept, axes=[1], keepdims=0)
    parts = [pooled(graph, one, x, given) for one in kind.split("-")]  # "last-mean-max"
    return graph.op("Concat", *parts, axis=1)


def unit(graph: Graph, vectors: str) -> str:
    """Vectors of length 1."""
    length = graph.op("ReduceL2", vectors, axes=[-1], keepdims=1)
    return graph.op("Div", vectors, graph.op("Max", length, graph.number(1e-12)))


def _planned(graph: Graph, part: PlannedHead, layers: Sequence[str], given: Inputs) -> str:
    x = layers[-1] if part.mix is None else _mixed(graph, part.mix, layers)
    if part.lstm is not None:
        x = _lstm(graph, part.lstm, x, given)
    if part.attention is not None:
        x = _attentive(graph, part.attention.query, x, given)
    elif not part.plan.per_token:
        x = pooled(graph, part.plan.pooling, x, given)
    if part.hidden is not None:
        x = graph.linear(x, part.hidden, "hidden", exact=True)
    return x if part.linear is None else graph.linear(x, part.linear, "linear", exact=True)


def _mixed(graph: Graph, part: LayerMix, layers: Sequence[str]) -> str:
    shares = (part.scale * part.weights.softmax(0)).tolist()
    kept = [graph.op("Mul", x, graph.number(w)) for w, x in zip(shares, layers, strict=True)]
    return graph.op("Sum", *kept)


def _attentive(graph: Graph, query: nn.Linear, x: str, given: Inputs) -> str:
    empty = graph.op("Sub", graph.number(1.0), given.inside)
    scores = graph.linear(x, query, "query", exact=True)
    scores = graph.op("Add", scores, graph.op("Mul", empty, graph.number(FAR)))
    weighted = graph.op("Mul", x, graph.op("Softmax", scores, axis=1))
    return graph.op("ReduceSum", weighted, graph.integers(1), keepdims=0)


def _lstm(graph: Graph, part: PackedLSTM, x: str, given: Inputs) -> str:
    """Both directions; the one that goes back begins at each text's last token."""
    lstm, size = part.lstm, part.lstm.hidden_size

    def stacked(kind: str) -> NDArray[np.float32]:
        both = [plain(getattr(lstm, f"{kind}_{end}")) for end in ("l0", "l0_reverse")]
        order = (0, 3, 1, 2)  # torch: input, forget, cell, output; ONNX: output comes second
        return np.stack([np.concatenate([np.split(one, 4)[n] for n in order]) for one in both])

    biases = np.concatenate([stacked("bias_ih"), stacked("bias_hh")], axis=1)
    lengths = graph.op("ReduceSum", given.mask, graph.integers(1), keepdims=0)
    out = graph.op(
        "LSTM",
        graph.op("Transpose", x, perm=[1, 0, 2]),
        graph.constant(stacked("weight_ih"), "lstm_input"),
        graph.constant(stacked("weight_hh"), "lstm_state"),
        graph.constant(biases, "lstm_bias"),
        graph.op("Cast", lengths, to=TensorProto.INT32),
        hidden_size=size,
        direction="bidirectional",
    )  # (L, 2, B, size)
    grid = graph.op("Transpose", out, perm=[2, 0, 1, 3])
    return graph.op("Reshape", grid, graph.integers(0, 0, 2 * size))
