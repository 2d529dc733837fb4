"""GPT-2 (Radford and others, 2019): pre-norm, a last norm, small first weights into the stream."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from tianci.models import gpt
from tianci.models.base import Encoder, Public, check_sizes
from tianci.nn.activations import activation
from tianci.nn.attention import SelfAttention
from tianci.nn.feedforward import FeedForward
from tianci.nn.heads import TiedHead
from tianci.nn.patterns import Causal
from tianci.nn.residual import PreNorm
from tianci.nn.stack import Block, NormedStack
from tianci.nn.task_heads import LastTokenHead, TokenHead

TOKEN_DROPOUT = 0.1  # no setting in the public format


@dataclass(frozen=True)
class Config:
    """Sizes of a GPT-2; the defaults are the smallest of the paper, 124 M."""

    vocabulary: int = 50257
    width: int = 768
    layers: int = 12
    heads: int = 12
    hidden: int = 3072
    positions: int = 1024
    activation: str = "gelu_new"
    dropout: float = 0.1
    embedding_dropout: float = 0.1
    attention_dropout: float = 0.1
    choice_dropout: float = 0.1
    norm_eps: float = 1e-5
    initial_std: float = 0.02
    begin: int | None = 50256  # one token stands between all texts
    end: int | None = 50256
    pad: int | None = None

    def __post_init__(self) -> None:
        check_sizes(self)


OBJECTIVE = "causal"  # what it was made to learn

PRESETS = {
    "tiny": Config(width=128, layers=2, heads=2, hidden=512),
    "mini": Config(width=256, layers=4, heads=4, hidden=1024),
    "small": Config(width=512, layers=4, heads=8, hidden=2048),
    "medium": Config(width=512, layers=8, heads=8, hidden=2048),
    "base": Config(),
    "large": Config(width=1024, layers=24, heads=16, hidden=4096),
    "xl": Config(width=1600, layers=48, heads=25, hidden=6400),
}


def _block(config: Config) -> Block:
    width, drop = config.width, config.dropout
    attention = SelfAttention(width, config.heads, config.attention_dropout, Causal())
    feed = FeedForward(width, config.hidden, activation(config.activation))
    return Block(
        PreNorm(attention, nn.LayerNorm(width, eps=config.norm_eps), drop),
        PreNorm(feed, nn.LayerNorm(width, eps=config.norm_eps), drop),
    )


class Gpt2(Encoder):
    """Token and position, and pre-norm blocks that see what stands to their left."""

    stack: NormedStack

    def __init__(self, config: Config):
        norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        stack = NormedStack([_block(config) for _ in range(config.layers)], norm)
        super().__init__(config, gpt.embedding(config), stack)
        # the stream is a sum over 2 parts per layer: each begins so small that the sum is not large
        for name, weight in self.named_parameters():
            if name.endswith(("part.out.weight", "part.down.weight")):
                nn.init.normal_(weight, std=config.initial_std / math.sqrt(2 * config.layers))

    def depth(self) -> list[nn.Module]:
        *lower, last = super().depth()
        return [*lower, nn.ModuleList([last, self.stack.norm])]


def build(config: Config) -> Gpt2:
    """A fresh model."""
    return Gpt2(config)


HEADS: dict[str, Callable[[Config], nn.Module]] = {"causal": lambda config: TiedHead()}

TASK_HEADS: dict[str, Callable[[Config, int], nn.Module]] = {
    "sequence": lambda c, outputs: LastTokenHead(c.width, outputs, 0.0, bias=False),
    "token": lambda c, outputs: TokenHead(c.width, outputs, TOKEN_DROPOUT),
    "span": lambda c, outputs: TokenHead(c.width, outputs, 0.0),
    "choice": lambda c, outputs: LastTokenHead(c.width, outputs, c.choice_dropout, bias=True),
}


def _read(config: Config, values: Mapping[str, Any]) -> Config:
    return config if values.get("n_inner") else replace(config, hidden=4 * config.width)


PUBLIC = Public(
    model_type="gpt2",
    config={**gpt.SIZES, "hidden": "n_inner", "activation": "activation_function"},
    read=_read,
    body={
        "embedding.token": "wte",
        "embedding.position": "wpe",
        **gpt.BLOCK,
        "stack.norm": "ln_f",
    },
    heads={
        "causal": {},  # the token table once more
        "sequence": {"linear": "score"},
        "token": {"linear": "classifier"},
        "span": {"linear": "qa_outputs"},
        "choice": {"linear": "multiple_choice_head.summary"},
    },
    prefix="transformer.",
    architectures={
        frozenset(): "GPT2Model",
        frozenset({"causal"}): "GPT2LMHeadModel",
        frozenset({"sequence"}): "GPT2ForSequenceClassification",
        frozenset({"token"}): "GPT2ForTokenClassification",
        frozenset({"span"}): "GPT2ForQuestionAnswering",
        frozenset({"causal", "choice"}): "GPT2DoubleHeadsModel",
        frozenset({"choice"}): "GPT2DoubleHeadsModel",
    },
    ignored=gpt.IGNORED,
    copies={"lm_head.weight": "wte.weight"},
    fixed={
        **gpt.FIXED,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
    },
)
