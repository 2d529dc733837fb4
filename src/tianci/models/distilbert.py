"""DistilBERT (Sanh and others, 2019): a BERT of half the layers, without segments and pooler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tianci.batch import Layout
from tianci.errors import UserError
from tianci.models.base import Encoder, Public, check_sizes, post_norm_names
from tianci.models.bert import Bert
from tianci.nn.activations import activation
from tianci.nn.attention import SelfAttention
from tianci.nn.dropout import dropout
from tianci.nn.embedding import PlaceEmbedding
from tianci.nn.feedforward import FeedForward
from tianci.nn.heads import VocabularyHead
from tianci.nn.residual import PostNorm
from tianci.nn.stack import Block, Stack
from tianci.nn.task_heads import Layers, TokenHead

NORM_EPS = 1e-12  # no setting in the public format


@dataclass(frozen=True)
class Config:
    """Sizes of a DistilBERT; the defaults are DistilBERT-base."""

    vocabulary: int = 30522
    width: int = 768
    layers: int = 6
    heads: int = 12
    hidden: int = 3072
    positions: int = 512
    activation: str = "gelu"
    dropout: float = 0.1
    attention_dropout: float = 0.1
    sequence_dropout: float = 0.2
    span_dropout: float = 0.1
    initial_std: float = 0.02
    pad: int = 0

    def __post_init__(self) -> None:
        check_sizes(self)


# half of the layers of the BERT of that name
OBJECTIVE = "masked"  # what it was made to learn

PRESETS = {
    "tiny": Config(width=128, layers=1, heads=2, hidden=512),
    "mini": Config(width=256, layers=2, heads=4, hidden=1024),
    "small": Config(width=512, layers=2, heads=8, hidden=2048),
    "medium": Config(width=512, layers=4, heads=8, hidden=2048),
    "base": Config(),
}


def _block(config: Config) -> Block:
    width = config.width
    attention = SelfAttention(width, config.heads, config.attention_dropout)
    feed = FeedForward(width, config.hidden, activation(config.activation))
    return Block(
        PostNorm(attention, nn.LayerNorm(width, eps=NORM_EPS), 0.0),  # unlike BERT: none here
        PostNorm(feed, nn.LayerNorm(width, eps=NORM_EPS), config.dropout),
    )


class DistilBert(Encoder):
    """Token and position, and a short stack of post-norm blocks."""

    def __init__(self, config: Config):
        embedding = PlaceEmbedding(
            token=nn.Embedding(config.vocabulary, config.width),
            position=nn.Embedding(config.positions, config.width),
            norm=nn.LayerNorm(config.width, eps=NORM_EPS),
            dropout=config.dropout,
        )
        super().__init__(config, embedding, Stack([_block(config) for _ in range(config.layers)]))


def build(config: Config) -> DistilBert:
    """A fresh model."""
    return DistilBert(config)


@torch.no_grad()
def from_bert(model: Bert, every: int = 2) -> DistilBert:
    """A DistilBERT that begins as the first of each `every` layers of a BERT.

    The vector of BERT's first segment goes into the positions, so that texts of one segment enter
    the stack exactly as they enter BERT's. BERT's head `masked` fits as it is.
    """
    old = model.config
    if not 1 <= every <= old.layers:
        raise UserError(f"every must be from 1 to {old.layers}, not {every}: BERT's layers")
    if old.norm_eps != NORM_EPS:
        raise UserError(f"layer_norm_eps is {old.norm_eps:g}, but DistilBERT only knows 1e-12")
    chosen = range(0, old.layers, every)
    shared = ("vocabulary", "width", "heads", "hidden", "positions", "activation", "dropout",
              "attention_dropout", "initial_std", "pad")  # fmt: skip
    sizes = {name: getattr(old, name) for name in shared}
    new = build(Config(layers=len(chosen), **sizes)).to(model.device)
    state = model.embedding.state_dict()
    state["position.weight"] = state["position.weight"] + state.pop("segment.weight")[0]
    new.embedding.load_state_dict(state)
    for block, number in zip(new.stack.blocks, chosen, strict=True):
        block.load_state_dict(model.stack.blocks[number].state_dict())
    return new


class FirstTokenHead(nn.Module):
    """The first token: dense, ReLU, dropout, linear."""

    def __init__(self, width: int, outputs: int, dropout: float):
        super().__init__()
        self.dense, self.linear = nn.Linear(width, width), nn.Linear(width, outputs)
        self.dropout = dropout

    def asks(self, layout: Layout) -> Tensor:
        return layout.first()

    def forward(self, layers: Layers, layout: Layout) -> Tensor:
        hidden = F.relu(self.dense(layers[-1][layout.first()]))
        out: Tensor = self.linear(dropout(hidden, self.dropout, self.training))
        return out


def _masked(config: Config) -> nn.Module:
    norm = nn.LayerNorm(config.width, eps=NORM_EPS)
    return VocabularyHead(config.width, config.vocabulary, activation(config.activation), norm)


HEADS: dict[str, Callable[[Config], nn.Module]] = {"masked": _masked}

TASK_HEADS: dict[str, Callable[[Config, int], nn.Module]] = {
    "sequence": lambda c, outputs: FirstTokenHead(c.width, outputs, c.sequence_dropout),
    "token": lambda c, outputs: TokenHead(c.width, outputs, c.dropout),
    "span": lambda c, outputs: TokenHead(c.width, outputs, c.span_dropout),
    "choice": lambda c, outputs: FirstTokenHead(c.width, outputs, c.sequence_dropout),
}

PUBLIC = Public(
    model_type="distilbert",
    config={
        "vocabulary": "vocab_size",
        "width": "dim",
        "layers": "n_layers",
        "heads": "n_heads",
        "hidden": "hidden_dim",
        "positions": "max_position_embeddings",
        "activation": "activation",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
        "sequence_dropout": "seq_classif_dropout",
        "span_dropout": "qa_dropout",
        "initial_std": "initializer_range",
        "pad": "pad_token_id",
    },
    body={
        "embedding.token": "embeddings.word_embeddings",
        "embedding.position": "embeddings.position_embeddings",
        "embedding.norm": "embeddings.LayerNorm",
        **post_norm_names(
            "transformer.layer.{i}.",
            attention=(
                *(f"attention.{name}" for name in ("q_lin", "k_lin", "v_lin", "out_lin")),
                "sa_layer_norm",
            ),
            feed=("ffn.lin1", "ffn.lin2", "output_layer_norm"),
        ),
    },
    heads={
        "masked": {"dense": "vocab_transform", "norm": "vocab_layer_norm", "": "vocab_projector"},
        "sequence": {"dense": "pre_classifier", "linear": "classifier"},
        "token": {"linear": "classifier"},
        "span": {"linear": "qa_outputs"},
        "choice": {"dense": "pre_classifier", "linear": "classifier"},
    },
    prefix="distilbert.",
    architectures={
        frozenset(): "DistilBertModel",
        frozenset({"masked"}): "DistilBertForMaskedLM",
        frozenset({"sequence"}): "DistilBertForSequenceClassification",
        frozenset({"token"}): "DistilBertForTokenClassification",
        frozenset({"span"}): "DistilBertForQuestionAnswering",
        frozenset({"choice"}): "DistilBertForMultipleChoice",
    },
    ignored=("embeddings.position_ids", "vocab_projector.weight"),
    fixed={"tie_word_embeddings": True},
)
