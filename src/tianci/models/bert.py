"""BERT (Devlin and others, 2018): learned positions, two segments, post-norm, exact GELU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from tianci.models.base import Encoder, Public, check_sizes, post_norm_block, post_norm_names
from tianci.nn.activations import activation
from tianci.nn.embedding import SumEmbedding
from tianci.nn.heads import PooledClassifier, Pooler, VocabularyHead
from tianci.nn.stack import Stack
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
        check_sizes(self, "segments")


OBJECTIVE = "masked+next_sentence"  # what it was made to learn

PRESETS = {
    "tiny": Config(width=128, layers=2, heads=2, hidden=512),
    "mini": Config(width=256, layers=4, heads=4, hidden=1024),
    "small": Config(width=512, layers=4, heads=8, hidden=2048),
    "medium": Config(width=512, layers=8, heads=8, hidden=2048),
    "base": Config(),
    "large": Config(width=1024, layers=24, heads=16, hidden=4096),
}


class Bert(Encoder):
    """Token, position and segment, and a stack of post-norm blocks."""

    def __init__(self, config: Config):
        width, eps = config.width, config.norm_eps
        embedding = SumEmbedding(
            token=nn.Embedding(config.vocabulary, width),
            position=nn.Embedding(config.positions, width),
            segment=nn.Embedding(config.segments, width),
            norm=nn.LayerNorm(width, eps=eps),
            dropout=config.dropout,
        )
        stack = Stack([post_norm_block(config, eps) for _ in range(config.layers)])
        super().__init__(config, embedding, stack)


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
    "sentence_order": lambda config: PooledClassifier(config.width, 2, dropout=0.0),
}

# Standard heads of tasks, by what they speak about; `outputs`: how many numbers they say
TASK_HEADS: dict[str, Callable[[Config, int], nn.Module]] = {
    "sequence": lambda config, outputs: SequenceHead(config.width, outputs, config.dropout),
    "token": lambda config, outputs: TokenHead(config.width, outputs, config.dropout),
    # transformers has no dropout before this one; neither has Google's code
    "span": lambda config, outputs: TokenHead(config.width, outputs, 0.0),
    "choice": lambda config, outputs: SequenceHead(config.width, outputs, config.dropout),
}

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
        **post_norm_names(
            "encoder.layer.{i}.",
            attention=(
                "attention.self.query",
                "attention.self.key",
                "attention.self.value",
                "attention.output.dense",
                "attention.output.LayerNorm",
            ),
            feed=("intermediate.dense", "output.dense", "output.LayerNorm"),
        ),
    },
    heads={
        "pooler": {"dense": "^pooler.dense"},
        "masked": {
            "dense": "cls.predictions.transform.dense",
            "norm": "cls.predictions.transform.LayerNorm",
            "": "cls.predictions",  # the bias over the vocabulary
        },
        "next_sentence": {"pooler.dense": "^pooler.dense", "linear": "cls.seq_relationship"},
        # the same tensors; tianci.json says which question they were trained on
        "sentence_order": {"pooler.dense": "^pooler.dense", "linear": "cls.seq_relationship"},
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
        frozenset({"sentence_order"}): "BertForNextSentencePrediction",
        frozenset({"masked", "next_sentence"}): "BertForPreTraining",
        frozenset({"masked", "sentence_order"}): "BertForPreTraining",
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
