"""What an engine needs to know of an encoder: its blocks as plain parts, in the order they run."""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

from tianci.errors import UserError
from tianci.models.base import Encoder, Model
from tianci.nn.activations import Activation
from tianci.nn.attention import SelfAttention
from tianci.nn.feedforward import FeedForward
from tianci.nn.patterns import Full
from tianci.nn.residual import PostNorm
from tianci.nn.stack import Block, Stack


class Parts(NamedTuple):
    """One block: attention and feed-forward, each with its norm and perhaps an adapter."""

    qkv: nn.Linear
    out: nn.Linear
    heads: int
    attention_adapter: nn.Module | None
    attention_norm: nn.LayerNorm
    up: nn.Linear
    down: nn.Linear
    activation: Activation
    feed_adapter: nn.Module | None
    feed_norm: nn.LayerNorm


def encoder(model: Model) -> Encoder:
    """The model, if it is an encoder that engines can run (BERT, RoBERTa, DistilBERT, ALBERT)."""
    if isinstance(model, Encoder) and type(model.stack).finished is Stack.finished:
        parts(model)
        return model
    raise UserError(
        f"a {type(model).__name__} only runs in torch, in float32; engines and int8 are for "
        "encoders (bert, roberta, albert, distilbert)"
    )


def parts(model: Encoder) -> list[Parts]:
    """The blocks as they run; one that runs several times is named several times."""
    return [_of(block) for block in model.stack.order()]


def _of(block: nn.Module) -> Parts:
    if type(block) is not Block:
        raise _unknown(block)
    first, second = block.attention, block.feed
    for residual in (first, second):
        if type(residual) is not PostNorm:
            raise _unknown(residual)
        if type(residual.norm) is not nn.LayerNorm:
            raise _unknown(residual.norm)
    assert isinstance(first, PostNorm) and isinstance(second, PostNorm)
    attention, feed = first.part, second.part
    if type(attention) is not SelfAttention or type(attention.pattern) is not Full:
        raise _unknown(attention)
    if type(feed) is not FeedForward:
        raise _unknown(feed)
    for layer in (attention.qkv, attention.out, feed.up, feed.down):
        if type(layer) is not nn.Linear:
            raise _unknown(layer)
    norms = first.norm, second.norm
    assert isinstance(norms[0], nn.LayerNorm) and isinstance(norms[1], nn.LayerNorm)
    return Parts(
        qkv=attention.qkv,
        out=attention.out,
        heads=attention.heads,
        attention_adapter=first.adapter,
        attention_norm=norms[0],
        up=feed.up,
        down=feed.down,
        activation=feed.activation,
        feed_adapter=second.adapter,
        feed_norm=norms[1],
    )


def _unknown(part: object) -> UserError:
    return UserError(f"engines do not know the part {type(part).__name__}; it only runs in torch")
