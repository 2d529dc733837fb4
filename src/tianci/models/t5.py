"""T5 (Raffel and others, 2019): text to text by two stacks, with distances instead of places."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from tianci.batch import Batch
from tianci.errors import UserError
from tianci.models.base import Model, Names, Public, States, check_positive
from tianci.nn.activations import activation
from tianci.nn.embedding import TokenEmbedding
from tianci.nn.feedforward import BareFeedForward, GatedFeedForward
from tianci.nn.heads import FreeHead, TiedHead
from tianci.nn.past import Following
from tianci.nn.relative import (
    CrossAttention,
    RelativeAttention,
    RelativeBias,
    RelativeBlock,
    RelativeStack,
)
from tianci.nn.residual import PreNorm


@dataclass(frozen=True)
class Config:
    """Sizes of a T5; the defaults are T5-small. `positions` is a habit, not a limit of the model;
    without decoder layers it is an encoder."""

    vocabulary: int = 32128
    width: int = 512
    layers: int = 6
    decoder_layers: int = 6
    heads: int = 8
    head_size: int = 64
    hidden: int = 2048
    positions: int = 512
    buckets: int = 32
    distance: int = 128
    feed: str = "relu"  # or gated-gelu (v1.1), gated-silu
    dropout: float = 0.1
    norm_eps: float = 1e-6
    initial_factor: float = 1.0
    tied: bool = True  # the output layer is the token table (v1.1: a table of its own)
    scaled: bool = True  # states are made smaller before they meet it (v1.1: they are not)
    begin: int = 0
    end: int = 1
    pad: int = 0

    def __post_init__(self) -> None:
        check_positive(self, "decoder_layers", "head_size", "buckets", "distance")
        if self.buckets < 4 or self.buckets % 4:
            raise UserError(f"{self.buckets} buckets cannot be halved twice; use 32")

    @property
    def initial_std(self) -> float:
        """Of heads."""
        return float(self.initial_factor * self.width**-0.5)


OBJECTIVE = "span"  # what it was made to learn

PRESETS = {
    "tiny": Config(width=128, layers=2, decoder_layers=2, heads=2, hidden=512),
    "mini": Config(width=256, layers=4, decoder_layers=4, heads=4, hidden=1024),
    "small": Config(),
    "base": Config(width=768, layers=12, decoder_layers=12, heads=12, hidden=3072),
    "large": Config(width=1024, layers=24, decoder_layers=24, heads=16, hidden=4096),
    "small-v1.1": Config(
        layers=8, decoder_layers=8, heads=6, hidden=1024, feed="gated-gelu", tied=False,
        scaled=False,
    ),
}  # fmt: skip


def _feed(config: Config) -> nn.Module:
    kind, _, name = config.feed.rpartition("-")
    if kind not in ("", "gated"):
        raise UserError(f'feed is "{config.feed}"; T5 has relu, gated-gelu and the like')
    # with a gate, "gelu" is the tanh one, as in the files of v1.1
    act = activation("gelu_new" if config.feed == "gated-gelu" else name)
    sizes = (config.width, config.hidden, act, config.dropout)
    return GatedFeedForward(*sizes) if kind else BareFeedForward(*sizes)


def _half(config: Config, layers: int, causal: bool) -> RelativeStack:
    """A stack of pre-norm blocks; those of the decoder (causal) look at the source too."""
    sizes = (config.width, config.heads, config.head_size, config.dropout)

    def wrapped(part: nn.Module) -> PreNorm:
        return PreNorm(part, nn.RMSNorm(config.width, eps=config.norm_eps), config.dropout)

    blocks = [
        RelativeBlock(
            wrapped(RelativeAttention(*sizes)),
            wrapped(CrossAttention(*sizes)) if causal else None,
            wrapped(_feed(config)),
        )
        for _ in range(layers)
    ]
    bias = RelativeBias(config.heads, config.buckets, config.distance, causal)
    norm = nn.RMSNorm(config.width, eps=config.norm_eps)
    return RelativeStack(blocks, bias, norm, config.dropout)


class T5(Model):
    """States of the encoder, or of the decoder where the batch has a target."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        table = nn.Embedding(config.vocabulary, config.width)
        self.embedding = TokenEmbedding(table, config.positions, config.dropout)
        self.encoder = _half(config, config.layers, causal=False)
        later = config.decoder_layers
        self.decoder = _half(config, later, causal=True) if later else None
        self._initial()

    def _initial(self) -> None:
        """Without a scale in attention, queries begin smaller; all else keeps the size of what
        passes."""
        c = self.config
        inner = c.heads * c.head_size
        for name, p in self.named_parameters():
            if name == "embedding.token.weight":
                nn.init.normal_(p, std=c.initial_factor)
            elif p.dim() == 2:
                fan_in = {"out": inner, "down": c.hidden}.get(name.split(".")[-2], c.width)
                nn.init.normal_(p, std=c.initial_factor * fan_in**-0.5)
                rows = {"qkv": inner, "query": inner}.get(name.split(".")[-2], 0)
                p.data[:rows] *= c.head_size**-0.5

    def forward(self, batch: Batch) -> States:
        if isinstance(batch.layout, Following):  # targets go on; their sources have been read
            assert self.decoder is not None
            layers = self.decoder(self.embedding(batch), batch.layout, None, None)
            return States(layers, batch.layout)
        source = self.encoder(self.embedding(batch), batch.layout)
        target = batch.decoder
        if target is None:
            return States(source, batch.layout)
        if self.decoder is None:
            raise UserError("this T5 is an encoder alone (decoder_layers = 0); it writes no target")
        layers = self.decoder(self.embedding(target), target.layout, source[-1], batch.layout)
        return States(layers, target.layout)

    def depth(self) -> list[nn.Module]:
        later = [] if self.decoder is None else self.decoder.depth()
        return [self.embedding, *self.encoder.depth(), *later]

    def keep_layers(self, count: int) -> None:
        super().keep_layers(count)
        if self.decoder is not None:
            self.decoder.blocks = self.decoder.blocks[:count]
            self.config = replace(self.config, decoder_layers=len(self.decoder.blocks))

    def cut_stack(self, count: int) -> None:
        self.encoder.blocks = self.encoder.blocks[:count]

    def token_table(self) -> Tensor:
        return self.embedding.token.weight

    def flops(self, length: int) -> float:
        """Of a source token; a target token costs a third more, but there are few."""
        c = self.config
        inner, mats = c.heads * c.head_size, 2 + c.feed.startswith("gated")
        return float(c.layers * (2 * c.width * (4 * inner + mats * c.hidden) + 4 * inner * length))


def build(config: Config) -> T5:
    """A fresh model."""
    return T5(config)


def _generation(config: Config) -> nn.Module:
    scale = config.width**-0.5 if config.scaled else 1.0
    return TiedHead(scale) if config.tied else FreeHead(config.width, config.vocabulary, scale)


HEADS: dict[str, Callable[[Config], nn.Module]] = {"generation": _generation}

# transformers' heads for tasks read the decoder in ways of their own; tasks get heads of ours
TASK_HEADS: dict[str, Callable[[Config, int], nn.Module]] = {}


def _names(name: str, feed: int) -> Names:
    """Public names of one half; `feed`: the place of the feed-forward part in a block."""
    ours, block = f"{name}.blocks.{{i}}.", f"{name}.block.{{i}}.layer."
    dense = f"{block}{feed}.DenseReluDense."
    return {
        ours + "attention.part.qkv": tuple(f"{block}0.SelfAttention.{n}" for n in "qkv"),
        ours + "attention.part.out": f"{block}0.SelfAttention.o",
        ours + "attention.norm": f"{block}0.layer_norm",
        ours + "cross.part.query": f"{block}1.EncDecAttention.q",
        ours + "cross.part.kv": tuple(f"{block}1.EncDecAttention.{n}" for n in "kv"),
        ours + "cross.part.out": f"{block}1.EncDecAttention.o",
        ours + "cross.norm": f"{block}1.layer_norm",
        ours + "feed.part.up": dense + "wi",
        ours + "feed.part.gate": dense + "wi_0",
        ours + "feed.part.value": dense + "wi_1",
        ours + "feed.part.down": dense + "wo",
        ours + "feed.norm": f"{block}{feed}.layer_norm",
        f"{name}.bias.table": f"{name}.block.0.layer.0.SelfAttention.relative_attention_bias",
        f"{name}.norm": f"{name}.final_layer_norm",
    }


def _write(config: Config) -> dict[str, Any]:
    whole = bool(config.decoder_layers)
    alone = {} if whole else {"architectures": ["T5EncoderModel"]}
    return {"is_encoder_decoder": whole, **alone}


def _read(config: Config, values: Mapping[str, Any]) -> Config:
    if values.get("is_encoder_decoder") is False:
        config = replace(config, decoder_layers=0)
    elif values.get("num_decoder_layers") is None:
        config = replace(config, decoder_layers=config.layers)
    told = values.get("scale_decoder_outputs")
    return replace(config, scaled=config.tied if told is None else bool(told))


PUBLIC = Public(
    model_type="t5",
    config={
        "vocabulary": "vocab_size",
        "width": "d_model",
        "layers": "num_layers",
        "decoder_layers": "num_decoder_layers",
        "heads": "num_heads",
        "head_size": "d_kv",
        "hidden": "d_ff",
        "positions": "n_positions",
        "buckets": "relative_attention_num_buckets",
        "distance": "relative_attention_max_distance",
        "feed": "feed_forward_proj",
        "dropout": "dropout_rate",
        "norm_eps": "layer_norm_epsilon",
        "initial_factor": "initializer_factor",
        "tied": "tie_word_embeddings",
        "scaled": "scale_decoder_outputs",
        "begin": "decoder_start_token_id",
        "end": "eos_token_id",
        "pad": "pad_token_id",
    },
    write=_write,
    read=_read,
    body={"embedding.token": "shared", **_names("encoder", 1), **_names("decoder", 2)},
    heads={"generation": {"linear": "lm_head"}},
    prefix="",
    architectures={
        frozenset(): "T5Model",
        frozenset({"generation"}): "T5ForConditionalGeneration",
    },
    ignored=("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",),
    copies={
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
    },
)
