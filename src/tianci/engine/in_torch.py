"""Torch with weights laid out once as oneDNN wants them, and fewer operators per block.

Measured on one core (Zen 4, milliseconds; 16 and 1,280 rows, 768 to 3,072): nn.Linear 1.21 and 68,
laid out 0.78 and 56; GELU inside the product costs 2 to 4 more at 1,280 rows, behind it 12. Tried
and left out: the sum with the residual inside the product (oneDNN lays the weights out again at
each call: 3.9 instead of 0.7 at 16 rows, 3,072 to 768).

Shapes: T tokens, W width, A tokens that are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tianci.batch import Batch, Layout
from tianci.engine.blocks import Parts, parts
from tianci.engine.cut import rounded
from tianci.engine.int8_torch import Int8, small_embedding
from tianci.models.base import Encoder
from tianci.nn.activations import Activation
from tianci.nn.attention import attend
from tianci.nn.patterns import Full

Product = Callable[[Tensor], Tensor]  # (T, in) -> (T, out), perhaps activated
Maker = Callable[[nn.Linear, Activation | None], Product]


class Packed:
    """nn.Linear with its weights laid out for oneDNN."""

    def __init__(self, layer: nn.Linear, activation: Activation | None):
        self.weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), None)
        self.bias = layer.bias.detach()
        self.name, self.algorithm = fused(activation)
        self.after = None if self.name != "none" else activation

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise(
            x, self.weight, self.bias, self.name, [], self.algorithm
        )
        return y if self.after is None else self.after(y)


class Plain:
    """nn.Linear as it is, where torch was built without oneDNN."""

    def __init__(self, layer: nn.Linear, activation: Activation | None):
        self.layer, self.activation = layer, activation

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x)
        return y if self.activation is None else self.activation(y)


def fused(activation: Activation | None) -> tuple[str, str | None]:
    """oneDNN's name of an activation, and which kind of it; "none" where it has none."""
    if activation is F.gelu:
        return "gelu", "none"
    if isinstance(activation, partial) and activation.keywords == {"approximate": "tanh"}:
        return "gelu", "tanh"
    return ("relu", None) if activation is F.relu else ("none", None)


def usual() -> Maker:
    """How float32 products are made here."""
    return Packed if torch.backends.mkldnn.is_available() else Plain  # type: ignore[no-untyped-call]


class InTorch:
    """The blocks of an encoder, run in torch."""

    slack = float("inf")  # attention pads nothing, so lengths may differ

    def __init__(self, model: Encoder, int8: bool = False):
        # tokens that go through all layers together: their states stay in cache. In int8 more of
        # the time goes into passes over them (MiniLM, 1,048 tokens: 167 ms, 239 all at once)
        self.most = 512 if int8 else 1024
        self.embedding = small_embedding(model.embedding) if int8 else model.embedding
        self.layers: list[tuple[Parts, Product, Product, Product, Product]] = []
        make: Maker = Int8 if int8 else usual()
        made: dict[nn.Linear, Product] = {}

        def once(layer: nn.Linear, activation: Activation | None = None) -> Product:
            if layer not in made:  # ALBERT runs one block many times
                made[layer] = make(layer, activation)
            return made[layer]

        for block in parts(model):
            up = once(block.up, block.activation)
            self.layers.append((block, once(block.qkv), once(block.out), up, once(block.down)))

    def last(self, batch: Batch) -> Tensor:
        """(T, W), or (A, W) of the tokens that are asked for."""
        tokens, batch = batch.layout.tokens, evened(batch)
        x: Tensor = self.embedding(batch)
        for number, (block, qkv, out, up, down) in enumerate(self.layers, 1):
            asked = batch.asked if number == len(self.layers) else None
            mixed = mix(qkv(x), block.heads, batch.layout)
            if asked is not None:
                mixed, x = mixed[asked], x[asked]
            x = joined(x, out(mixed), block.attention_adapter, block.attention_norm)
            x = joined(x, down(up(x)), block.feed_adapter, block.feed_norm)
        if batch.asked is None:
            return x[:tokens]
        return x if self.layers else x[batch.asked]


def evened(batch: Batch) -> Batch:
    """The batch with one sequence more, which nobody reads, where its size is uncommon."""
    layout, count = batch.layout, rounded(batch.layout.tokens)
    more = count - layout.tokens
    if not more:
        return batch
    return replace(
        batch,
        tokens=F.pad(batch.tokens, (0, more)),
        layout=Layout((*layout.lengths, more)),
        segments=None if batch.segments is None else F.pad(batch.segments, (0, more)),
    )


def mix(joint: Tensor, heads: int, layout: Layout) -> Tensor:
    """(T, 3 W) queries, keys and values -> (T, W)."""
    q, k, v = joint.view(len(joint), 3, heads, -1).unbind(1)
    return attend(q, k, v, layout, Full()).flatten(1)


def joined(x: Tensor, change: Tensor, adapter: nn.Module | None, norm: nn.LayerNorm) -> Tensor:
    """norm(x + change), in the memory of the change."""
    if adapter is not None:
        change = adapter(change)
    return F.layer_norm(change.add_(x), norm.normalized_shape, norm.weight, norm.bias, norm.eps)
