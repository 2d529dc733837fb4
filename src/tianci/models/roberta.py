"""RoBERTa (Liu and others, 2019): BERT with one segment, positions behind the padding's row, no
next sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tianci.batch import Layout
from tianci.models import bert
from tianci.models.base import Encoder, Public, post_norm_block
from tianci.nn.dropout import dropout
from tianci.nn.embedding import OffsetPositions, OneSegment, SumEmbedding
from tianci.nn.heads import Pooler, VocabularyHead
from tianci.nn.stack import Stack
from tianci.nn.task_heads import Layers, SequenceHead, TokenHead


@dataclass(frozen=True)
class Config(bert.Config):
    """Sizes of a RoBERTa; the defaults are RoBERTa-base. `positions`: tokens that can be read."""

    vocabulary: int = 50265
    segments: int = 1
    norm_eps: float = 1e-5
    pad: int = 1

    @property
    def offset(self) -> int:
        """Rows of the position table before the first token's: transformers counts from the
        padding token's id on."""
        return self.pad + 1


OBJECTIVE = "masked"  # what it was made to learn

PRESETS = {
    "tiny": Config(width=128, layers=2, heads=2, hidden=512),
    "mini": Config(width=256, layers=4, heads=4, hidden=1024),
    "small": Config(width=512, layers=4, heads=8, hidden=2048),
    "medium": Config(width=512, layers=8, heads=8, hidden=2048),
    "base": Config(),
    "large": Config(width=1024, layers=24, heads=16, hidden=4096),
}


class Roberta(Encoder):
    """BERT's stack over an embedding whose positions begin further down."""

    def __init__(self, config: Config):
        width, eps = config.width, config.norm_eps
        one = config.segments == 1
        embedding = SumEmbedding(
            token=nn.Embedding(config.vocabulary, width),
            position=OffsetPositions(config.positions, width, config.offset),
            segment=OneSegment(width) if one else nn.Embedding(config.segments, width),
            norm=nn.LayerNorm(width, eps=eps),
            dropout=config.dropout,
        )
        stack = Stack([post_norm_block(config, eps) for _ in range(config.layers)])
        super().__init__(config, embedding, stack)


def build(config: Config) -> Roberta:
    """A fresh model."""
    return Roberta(config)


class FirstTokenHead(nn.Module):
    """The first token: dropout, dense, tanh, dropout, linear."""

    def __init__(self, width: int, outputs: int, dropout: float):
        super().__init__()
        self.dense, self.linear = nn.Linear(width, width), nn.Linear(width, outputs)
        self.dropout = dropout

    def asks(self, layout: Layout) -> Tensor:
        return layout.first()

    def forward(self, layers: Layers, layout: Layout) -> Tensor:
        first = dropout(layers[-1][layout.first()], self.dropout, self.training)
        hidden = torch.tanh(self.dense(first))
        out: Tensor = self.linear(dropout(hidden, self.dropout, self.training))
        return out


def _masked(config: Config) -> nn.Module:
    norm = nn.LayerNorm(config.width, eps=config.norm_eps)
    return VocabularyHead(config.width, config.vocabulary, F.gelu, norm)  # whatever the blocks have


HEADS: dict[str, Callable[[Config], nn.Module]] = {
    "pooler": lambda config: Pooler(config.width),
    "masked": _masked,
}

TASK_HEADS: dict[str, Callable[[Config, int], nn.Module]] = {
    "sequence": lambda config, outputs: FirstTokenHead(config.width, outputs, config.dropout),
    "token": lambda config, outputs: TokenHead(config.width, outputs, config.dropout),
    "span": lambda config, outputs: TokenHead(config.width, outputs, 0.0),
    "choice": lambda config, outputs: SequenceHead(config.width, outputs, config.dropout),
}


def _write(config: Config) -> dict[str, Any]:
    return {"max_position_embeddings": config.positions + config.offset}


def _read(config: Config, values: Mapping[str, Any]) -> Config:
    return replace(config, positions=config.positions - config.offset)


PUBLIC = Public(
    model_type="roberta",
    config=bert.PUBLIC.config,
    write=_write,
    read=_read,
    absent={"max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12},
    body=bert.PUBLIC.body,
    heads={
        "pooler": {"dense": "^pooler.dense"},
        "masked": {"dense": "lm_head.dense", "norm": "lm_head.layer_norm", "": "lm_head"},
        "sequence": {"dense": "classifier.dense", "linear": "classifier.out_proj"},
        "token": {"linear": "classifier"},
        "span": {"linear": "qa_outputs"},
        "choice": {"pooler.dense": "^pooler.dense", "linear": "classifier"},
    },
    prefix="roberta.",
    architectures={
        frozenset(): "RobertaModel",
        frozenset({"pooler"}): "RobertaModel",
        frozenset({"masked"}): "RobertaForMaskedLM",
        frozenset({"sequence"}): "RobertaForSequenceClassification",
        frozenset({"token"}): "RobertaForTokenClassification",
        frozenset({"span"}): "RobertaForQuestionAnswering",
        frozenset({"choice"}): "RobertaForMultipleChoice",
    },
    ignored=("embeddings.position_ids", "lm_head.decoder.weight", "lm_head.decoder.bias"),
    fixed=bert.PUBLIC.fixed,
)
