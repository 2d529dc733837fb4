"""GPT (Radford and others, 2018): BERT's post-norm stack reading from left to right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from tianci.errors import unknown
from tianci.models.base import (
    Encoder,
    Names,
    Public,
    Turned,
    check_sizes,
    post_norm_block,
)
from tianci.nn.embedding import PlaceEmbedding
from tianci.nn.heads import TiedHead
from tianci.nn.patterns import Causal
from tianci.nn.stack import Stack
from tianci.nn.task_heads import LastTokenHead

ACTIVATIONS = {"gelu_new": "gelu", "relu": "relu", "silu": "silu"}  # GPT's "gelu" is the tanh one


@dataclass(frozen=True)
class Config:
    """Sizes of a GPT; the defaults are those of the paper."""

    vocabulary: int = 40478
    width: int = 768
    layers: int = 12
    heads: int = 12
    positions: int = 512
    activation: str = "gelu_new"
    dropout: float = 0.1
    embedding_dropout: float = 0.1
    attention_dropout: float = 0.1
    choice_dropout: float = 0.1
    norm_eps: float = 1e-5
    initial_std: float = 0.02
    begin: int | None = None
    end: int | None = None
    pad: int | None = None

    def __post_init__(self) -> None:
        check_sizes(self)
        if self.activation not in ACTIVATIONS:
            raise unknown("activation of GPT", self.activation, ACTIVATIONS)

    @property
    def hidden(self) -> int:
        """GPT knows no other."""
        return 4 * self.width


OBJECTIVE = "causal"  # what it was made to learn

PRESETS = {
    "tiny": Config(width=128, layers=2, heads=2),
    "mini": Config(width=256, layers=4, heads=4),
    "small": Config(width=512, layers=4, heads=8),
    "medium": Config(width=512, layers=8, heads=8),
    "base": Config(),
}


def embedding(config: Any) -> PlaceEmbedding:
    """Token and position, not normalised."""
    return PlaceEmbedding(
        token=nn.Embedding(config.vocabulary, config.width),
        position=nn.Embedding(config.positions, config.width),
        norm=nn.Identity(),
        dropout=config.embedding_dropout,
    )


class Gpt(Encoder):
    """Token and position, and a stack of post-norm blocks that see what stands to their left."""

    def __init__(self, config: Config):
        blocks = [post_norm_block(config, config.norm_eps, Causal()) for _ in range(config.layers)]
        super().__init__(config, embedding(config), Stack(blocks))


def build(config: Config) -> Gpt:
    """A fresh model."""
    return Gpt(config)


HEADS: dict[str, Callable[[Config], nn.Module]] = {"causal": lambda config: TiedHead()}

TASK_HEADS: dict[str, Callable[[Config, int], nn.Module]] = {
    "sequence": lambda c, outputs: LastTokenHead(c.width, outputs, 0.0, bias=False),
    "choice": lambda c, outputs: LastTokenHead(c.width, outputs, c.choice_dropout, bias=True),
}

# What both generations of GPT call the parts of a block; their matrices have inputs first
BLOCK: Names = {
    "stack.blocks.{i}.attention.part.qkv": Turned("h.{i}.attn.c_attn"),
    "stack.blocks.{i}.attention.part.out": Turned("h.{i}.attn.c_proj"),
    "stack.blocks.{i}.attention.norm": "h.{i}.ln_1",
    "stack.blocks.{i}.feed.part.up": Turned("h.{i}.mlp.c_fc"),
    "stack.blocks.{i}.feed.part.down": Turned("h.{i}.mlp.c_proj"),
    "stack.blocks.{i}.feed.norm": "h.{i}.ln_2",
}
SIZES = {
    "vocabulary": "vocab_size",
    "width": "n_embd",
    "layers": "n_layer",
    "heads": "n_head",
    "positions": "n_positions",
    "dropout": "resid_pdrop",
    "embedding_dropout": "embd_pdrop",
    "attention_dropout": "attn_pdrop",
    "choice_dropout": "summary_first_dropout",
    "norm_eps": "layer_norm_epsilon",
    "initial_std": "initializer_range",
    "begin": "bos_token_id",
    "end": "eos_token_id",
    "pad": "pad_token_id",
}
IGNORED = ("h.*.attn.bias", "h.*.attn.masked_bias", "position_ids")
FIXED: dict[str, Any] = {  # of heads for choices we know one kind
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "summary_activation": None,
    "summary_proj_to_labels": True,
    "tie_word_embeddings": True,
}


def _write(config: Config) -> dict[str, Any]:
    return {"afn": ACTIVATIONS[config.activation]}


def _read(config: Config, values: Mapping[str, Any]) -> Config:
    known = {theirs: ours for ours, theirs in ACTIVATIONS.items()} | {"swish": "silu"}
    name = values.get("afn", "gelu")
    if name not in known:
        raise unknown("afn", str(name), known)
    return replace(config, activation=known[name])


PUBLIC = Public(
    model_type="openai-gpt",
    config=SIZES,
    write=_write,
    read=_read,
    body={
        "embedding.token": "tokens_embed",
        "embedding.position": "positions_embed",
        **BLOCK,
    },
    heads={
        "causal": {},  # the token table once more
        "sequence": {"linear": "score"},
        "choice": {"linear": "multiple_choice_head.summary"},
    },
    prefix="transformer.",
    architectures={
        frozenset(): "OpenAIGPTModel",
        frozenset({"causal"}): "OpenAIGPTLMHeadModel",
        frozenset({"sequence"}): "OpenAIGPTForSequenceClassification",
        frozenset({"causal", "choice"}): "OpenAIGPTDoubleHeadsModel",
        frozenset({"choice"}): "OpenAIGPTDoubleHeadsModel",
    },
    ignored=IGNORED,
    copies={"lm_head.weight": "tokens_embed.weight"},
    fixed=FIXED,
)
