"""BERT (Devlin and others, 2018): learned positions, two segments, post-norm, exact GELU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from tianci.batch import Batch
from tianci.errors import UserError
from tianci.models.base import Model, Public, States
from tianci.nn import initial
from tianci.nn.activations import activation
from tianci.nn.attention import SelfAttention
from tianci.nn.embedding import SumEmbedding
from tianci.nn.feedforward import FeedForward
from tianci.nn.heads import PooledClassifier, Pooler, VocabularyHead
from tianci.nn.residual import PostNorm
from tianci.nn.stack import Block, Stack
from tianci.nn.task_heads import SequenceHead, TokenHead


@dataclass(frozen=True)
class Config:
    """Sizes of a BERT; the defaults are BERT-base, uncased English."""

    vocabulary: int = 30522
    width: int = 768
    layers: int = 12
    heads: int = 12
    hidden: int = 3072
    positions: int = 512
    segments: int = 2
    activation: str = "gelu"
    dropout: float = 0.1
    attention_dropout: float = 0.1
    norm_eps: float = 1e-12
    initial_std: float = 0.02
    pad: int = 0

    def __post_init__(self) -> None:
        for name in ("vocabulary", "width", "layers", "heads", "hidden", "positions", "segments"):
            if getattr(self, name) < (0 if name == "layers" else 1):
                raise UserError(f"a BERT with {name} = {getattr(self, name)} cannot be built")
        if self.width % self.heads:
            raise UserError(
                f"{self.heads} heads do not divide a width of {self.width}; change one of them"
            )


PRESETS = {
    "tiny": Config(width=128, layers=2, heads=2, hidden=512),
    "mini": Config(width=256, layers=4, heads=4, hidden=1024),
    "small": Config(width=512, layers=4, heads=8, hidden=2048),
    "medium": Config(width=512, layers=8, heads=8, hidden=2048),
    "base": Config(),
    "large": Config(width=1024, layers=24, heads=16, hidden=4096),
}


class Bert(Model):
    """Embedding and a stack of post-norm blocks."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        width, drop = config.width, config.dropout

        def norm() -> nn.LayerNorm:
            return nn.LayerNorm(width, eps=config.norm_eps)

        def block() -> Block:
            attention = SelfAttention(width, config.heads, config.attention_dropout)
            feed = FeedForward(width, config.hidden, activation(config.activation))
            return Block(PostNorm(attention, norm(), drop), PostNorm(feed, norm(), drop))

        self.embedding = SumEmbedding(
            token=nn.Embedding(config.vocabulary, width),
            position=nn.Embedding(config.positions, width),
            segment=nn.Embedding(config.segments, width),
            norm=norm(),
            dropout=drop,
        )
        self.stack = Stack([block() for _ in range(config.layers)])
        initial.normal(self, config.initial_std)
        initial.waves(self.embedding.position, config.initial_std)

    def forward(self, batch: Batch) -> States:
        return States(self.stack(self.embedding(batch), batch.layout), batch.layout)

    def depth(self) -> list[nn.Module]:
        return [self.embedding, *self.stack.blocks]

    def token_table(self) -> Tensor:
        return self.embedding.token.weight

    def flops(self, length: int) -> float:
        c = self.config
        return float(
            c.layers * (2 * (4 * c.width**2 + 2 * c.width * c.hidden) + 4 * c.width * length)
        )


def build(config: Config) -> Bert:
    """A fresh model."""
    return Bert(config)


def _masked(config: Config) -> nn.Module:
    norm = nn.LayerNorm(config.width, eps=config.norm_eps)
    return VocabularyHead(config.width, config.vocabulary, activation(config.activation), norm)


# Heads that the public format knows; all start as BERT starts.
HEADS: dict[str, Callable[[Config], nn.Module]] = {
    "pooler": lambda config: Pooler(config.width),
    "masked": _masked,
    # transformers puts no dropout between pooler and this classifier; neither does Google's code
    "next_sentence": lambda config: PooledClassifier(config.width, 2, dropout=0.0),
}

# Standard heads of tasks, by what they speak about; `outputs`: how many numbers they say
TASK_HEADS: dict[str, Callable[[Config, int], nn.Module]] = {
    "sequence": lambda config, outputs: SequenceHead(config.width, outputs, config.dropout),
    "token": lambda config, outputs: TokenHead(config.width, outputs, config.dropout),
    # transformers has no dropout before this one; neither has Google's code
    "span": lambda config, outputs: TokenHead(config.width, outputs, 0.0),
    "choice": lambda config, outputs: SequenceHead(config.width, outputs, config.dropout),
}

_LAYER, _OURS = "encoder.layer.{i}.", "stack.blocks.{i}."
PUBLIC = Public(
    model_type="bert",
    config={
        "vocabulary": "vocab_size",
        "width": "hidden_size",
        "layers": "num_hidden_layers",
        "heads": "num_attention_heads",
        "hidden": "intermediate_size",
        "positions": "max_position_embeddings",
        "segments": "type_vocab_size",
        "activation": "hidden_act",
        "dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
        "norm_eps": "layer_norm_eps",
        "initial_std": "initializer_range",
        "pad": "pad_token_id",
    },
    body={
        "embedding.token": "embeddings.word_embeddings",
        "embedding.position": "embeddings.position_embeddings",
        "embedding.segment": "embeddings.token_type_embeddings",
        "embedding.norm": "embeddings.LayerNorm",
        _OURS + "attention.part.qkv": (
            _LAYER + "attention.self.query",
            _LAYER + "attention.self.key",
            _LAYER + "attention.self.value",
        ),
        _OURS + "attention.part.out": _LAYER + "attention.output.dense",
        _OURS + "attention.norm": _LAYER + "attention.output.LayerNorm",
        _OURS + "feed.part.up": _LAYER + "intermediate.dense",
        _OURS + "feed.part.down": _LAYER + "output.dense",
        _OURS + "feed.norm": _LAYER + "output.LayerNorm",
    },
    heads={
        "pooler": {"dense": "^pooler.dense"},
        "masked": {
            "dense": "cls.predictions.transform.dense",
            "norm": "cls.predictions.transform.LayerNorm",
            "": "cls.predictions",  # the bias over the vocabulary
        },
        "next_sentence": {"pooler.dense": "^pooler.dense", "linear": "cls.seq_relationship"},
        "sequence": {"pooler.dense": "^pooler.dense", "linear": "classifier"},
        "token": {"linear": "classifier"},
        "span": {"linear": "qa_outputs"},
        "choice": {"pooler.dense": "^pooler.dense", "linear": "classifier"},
    },
    prefix="bert.",
    architectures={
        frozenset(): "BertModel",
        frozenset({"pooler"}): "BertModel",
        frozenset({"masked"}): "BertForMaskedLM",
        frozenset({"next_sentence"}): "BertForNextSentencePrediction",
        frozenset({"masked", "next_sentence"}): "BertForPreTraining",
        frozenset({"sequence"}): "BertForSequenceClassification",
        frozenset({"token"}): "BertForTokenClassification",
        frozenset({"span"}): "BertForQuestionAnswering",
        frozenset({"choice"}): "BertForMultipleChoice",
    },
    ignored=(
        "embeddings.position_ids",
        "cls.predictions.decoder.weight",
        "cls.predictions.decoder.bias",
    ),
    fixed={
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "add_cross_attention": False,
        "tie_word_embeddings": True,
    },
)
