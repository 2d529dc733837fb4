"""ALBERT (Lan and others, 2019): narrow token vectors, one block for all layers, sentence order.

Sharing cuts parameters, not work: a forward pass takes as long as that of a BERT of the same sizes.
The public format has one block or one per layer. Where only attention or only feed-forward is
shared, each layer's block is written whole, so that transformers reads it; `sharing` in config.json
says that the copies are one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import nn

from tianci.errors import UserError
from tianci.models import bert
from tianci.models.base import Encoder, Public, check_sizes, post_norm_block, post_norm_names
from tianci.nn.activations import activation
from tianci.nn.embedding import FactorisedEmbedding
from tianci.nn.heads import PooledClassifier, Pooler, VocabularyHead
from tianci.nn.stack import Block, Stack
from tianci.nn.task_heads import SequenceHead, TokenHead


@dataclass(frozen=True)
class Config(bert.Config):
    """Sizes of an ALBERT; the defaults are ALBERT-base, version 2."""

    vocabulary: int = 30000
    activation: str = "gelu_new"
    dropout: float = 0.0
    attention_dropout: float = 0.0
    classifier_dropout: float = 0.1
    embedding: int = 128  # width of the token vectors
    sharing: Literal["all", "attention", "feed-forward", "none"] = "all"

    def __post_init__(self) -> None:
        check_sizes(self, "segments", "embedding")

    @property
    def groups(self) -> int:
        """How many blocks the public format holds: parts that are shared are written to each."""
        return 1 if self.sharing == "all" else self.layers


OBJECTIVE = "masked+sentence_order"  # what it was made to learn

PRESETS = {
    "tiny": Config(width=128, layers=2, heads=2, hidden=512),
    "mini": Config(width=256, layers=4, heads=4, hidden=1024),
    "small": Config(width=512, layers=4, heads=8, hidden=2048),
    "medium": Config(width=512, layers=8, heads=8, hidden=2048),
    "base": Config(),
    "large": Config(width=1024, layers=24, heads=16, hidden=4096),
    "xlarge": Config(width=2048, layers=24, heads=16, hidden=8192),
    "xxlarge": Config(width=4096, layers=12, heads=64, hidden=16384),
}


class RepeatedStack(Stack):
    """One block, run so many times."""

    def __init__(self, block: nn.Module, times: int):
        super().__init__([block])
        self.times = times

    def order(self) -> list[nn.Module]:
        return [self.blocks[0]] * self.times


def _stack(config: Config) -> Stack:
    blocks = [post_norm_block(config, config.norm_eps) for _ in range(config.groups)]
    if config.sharing == "all":
        return RepeatedStack(blocks[0], config.layers)
    if config.sharing == "attention":
        blocks = [Block(blocks[0].attention, block.feed) for block in blocks]
    if config.sharing == "feed-forward":
        blocks = [Block(block.attention, blocks[0].feed) for block in blocks]
    return Stack(blocks)


class Albert(Encoder):
    """A factorised embedding, and blocks that share as configured."""

    def __init__(self, config: Config):
        narrow = config.embedding
        embedding = FactorisedEmbedding(
            token=nn.Embedding(config.vocabulary, narrow),
            position=nn.Embedding(config.positions, narrow),
            segment=nn.Embedding(config.segments, narrow),
            norm=nn.LayerNorm(narrow, eps=config.norm_eps),
            dropout=config.dropout,
            width=config.width,
        )
        super().__init__(config, embedding, _stack(config))

    def depth(self) -> list[nn.Module]:
        """A shared part counts once, with the lowest layer that uses it."""
        own = {"attention": "feed", "feed-forward": "attention"}.get(self.config.sharing)
        blocks = list(self.stack.blocks)
        above = [block.get_submodule(own) if own else block for block in blocks[1:]]
        return [self.embedding, *blocks[:1], *above]

    def cut_stack(self, count: int) -> None:
        if isinstance(self.stack, RepeatedStack):
            self.stack.times = count
        else:
            super().cut_stack(count)

    def flops(self, length: int) -> float:
        widening = 2 * self.config.embedding * self.config.width
        return super().flops(length) + float(widening)


def build(config: Config) -> Albert:
    """A fresh model."""
    return Albert(config)


class NarrowVocabularyHead(VocabularyHead):
    """From the width down to that of the token vectors, then as usual."""

    def __init__(self, config: Config):
        norm = nn.LayerNorm(config.embedding, eps=config.norm_eps)
        kind = activation(config.activation)
        super().__init__(config.embedding, config.vocabulary, kind, norm)
        self.dense = nn.Linear(config.width, config.embedding)


HEADS: dict[str, Callable[[Config], nn.Module]] = {
    "pooler": lambda config: Pooler(config.width),
    "masked": NarrowVocabularyHead,
    "sentence_order": lambda config: PooledClassifier(config.width, 2, config.classifier_dropout),
}

TASK_HEADS: dict[str, Callable[[Config, int], nn.Module]] = {
    "sequence": lambda c, outputs: SequenceHead(c.width, outputs, c.classifier_dropout),
    "token": lambda c, outputs: TokenHead(c.width, outputs, c.classifier_dropout),
    "span": lambda c, outputs: TokenHead(c.width, outputs, 0.0),
    "choice": lambda c, outputs: SequenceHead(c.width, outputs, c.classifier_dropout),
}


def _write(config: Config) -> dict[str, Any]:
    return {"num_hidden_groups": config.groups, "inner_group_num": 1}


def _read(config: Config, values: Mapping[str, Any]) -> Config:
    """`sharing` is ours; transformers only counts groups of layers with the same weights."""
    groups = values["num_hidden_groups"]
    if config.groups == groups:
        return config
    if groups not in (1, config.layers):
        raise UserError(
            f"num_hidden_groups is {groups}, but tianci only knows 1 and {config.layers}"
        )
    return replace(config, sharing="all" if groups == 1 else "none")


PUBLIC = Public(
    model_type="albert",
    config={
        **bert.PUBLIC.config,
        "embedding": "embedding_size",
        "classifier_dropout": "classifier_dropout_prob",
        "sharing": "sharing",
    },
    write=_write,
    read=_read,
    absent={
        "hidden_size": 4096,
        "num_hidden_layers": 12,
        "num_hidden_groups": 1,
        "num_attention_heads": 64,
        "intermediate_size": 16384,
    },
    body={
        "embedding.token": "embeddings.word_embeddings",
        "embedding.position": "embeddings.position_embeddings",
        "embedding.segment": "embeddings.token_type_embeddings",
        "embedding.norm": "embeddings.LayerNorm",
        "embedding.widen": "encoder.embedding_hidden_mapping_in",
        **post_norm_names(
            "encoder.albert_layer_groups.{i}.albert_layers.0.",
            attention=[f"attention.{n}" for n in ("query", "key", "value", "dense", "LayerNorm")],
            feed=("ffn", "ffn_output", "full_layer_layer_norm"),
        ),
    },
    heads={
        "pooler": {"dense": "^pooler"},
        "masked": {
            "dense": "predictions.dense",
            "norm": "predictions.LayerNorm",
            "": "predictions",
        },
        "sentence_order": {"pooler.dense": "^pooler", "linear": "sop_classifier.classifier"},
        "sequence": {"pooler.dense": "^pooler", "linear": "classifier"},
        "token": {"linear": "classifier"},
        "span": {"linear": "qa_outputs"},
        "choice": {"pooler.dense": "^pooler", "linear": "classifier"},
    },
    prefix="albert.",
    architectures={
        frozenset(): "AlbertModel",
        frozenset({"pooler"}): "AlbertModel",
        frozenset({"masked"}): "AlbertForMaskedLM",
        frozenset({"masked", "sentence_order"}): "AlbertForPreTraining",
        frozenset({"sequence"}): "AlbertForSequenceClassification",
        frozenset({"token"}): "AlbertForTokenClassification",
        frozenset({"span"}): "AlbertForQuestionAnswering",
        frozenset({"choice"}): "AlbertForMultipleChoice",
    },
    ignored=("embeddings.position_ids", "predictions.decoder.weight", "predictions.decoder.bias"),
    fixed={
        "inner_group_num": 1,
        "position_embedding_type": "absolute",
        "tie_word_embeddings": True,
    },
)
