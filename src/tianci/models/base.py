"""What all families share: Model, States, and the way to say how public checkpoints name things."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from tianci.batch import Batch, Layout
from tianci.errors import UserError, shorten
from tianci.nn import few_shapes, initial
from tianci.nn.activations import activation
from tianci.nn.attention import SelfAttention
from tianci.nn.embedding import PlaceEmbedding
from tianci.nn.feedforward import FeedForward
from tianci.nn.patterns import Pattern
from tianci.nn.pooling import pool
from tianci.nn.residual import PostNorm
from tianci.nn.stack import Block, Stack


@dataclass(frozen=True)
class States:
    """What a model says about a batch: one (T, W) tensor per layer, 0 being the embedding."""

    layers: Sequence[Tensor]
    layout: Layout

    @property
    def last(self) -> Tensor:
        return self.layers[-1]

    def mixed(self, weights: Tensor) -> Tensor:
        """The sum of all layers, each with its weight."""
        total = weights[0] * self.layers[0]
        for weight, layer in zip(weights[1:], self.layers[1:], strict=True):
            total = total + weight * layer
        return total

    def pooled(self, kind: str = "first", layer: int = -1) -> Tensor:
        """(B, W): one vector per sequence."""
        return pool(self.layers[layer], self.layout, kind)


class Model(nn.Module):
    """A family's body: batch in, States out. Heads belong to goals."""

    config: Any

    def forward(self, batch: Batch) -> States:
        """The states of all layers."""
        raise TypeError(f"{type(self).__name__} has no forward")

    def depth(self) -> list[nn.Module]:
        """The parts from shallow to deep: for freezing, rates per layer, unfreezing, truncation."""
        raise TypeError(f"{type(self).__name__} has no depth")

    def keep_layers(self, count: int) -> None:
        """Cuts the model down to its first layers."""
        if not 1 <= count <= self.config.layers:
            raise UserError(f"--layers is {count}, but the model has {self.config.layers} layers")
        self.cut_stack(count)
        self.config = dataclasses.replace(self.config, layers=count)

    def cut_stack(self, count: int) -> None:
        """Drops the blocks above."""
        stack = self.get_submodule("stack")
        assert isinstance(stack.blocks, nn.ModuleList)
        stack.blocks = stack.blocks[:count]

    def token_table(self) -> Tensor:
        """(V, W) input vectors, for output layers that use them again."""
        raise TypeError(f"{type(self).__name__} has no token table")

    def flops(self, length: int) -> float:
        """Operations of one forward pass, per token, in sequences of that length."""
        raise TypeError(f"{type(self).__name__} does not count its operations")

    @property
    def parameter_count(self) -> int:
        return sum(p.numel() for p in self.parameters())

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device


class Fast(Protocol):
    """Another way to run a model (tianci.engine makes them)."""

    def takes(self, batch: Batch) -> bool: ...
    def states(self, batch: Batch) -> States: ...


LOOKING = 2  # layers that begin by looking at their neighbours
WIDE = 768  # wider models begin as if they were narrow
DEEP = 6  # blocks; in deeper stacks the others begin by passing on what they get


def _both_sided(stack: Stack) -> list[SelfAttention]:
    """The attentions that see both sides, from below."""
    parts = [block.attention.part for block in stack.blocks if isinstance(block, Block)]
    return [part for part in parts if isinstance(part, SelfAttention) and not part.pattern.causal]


class Encoder(Model):
    """An embedding and a stack of blocks that see both sides; the family makes both."""

    engine: Fast | None = None  # runs plain inference, where somebody has put one here

    def __init__(self, config: Any, embedding: PlaceEmbedding, stack: Stack):
        super().__init__()
        self.config, self.embedding, self.stack = config, embedding, stack
        initial.normal(self, config.initial_std)
        initial.waves(embedding.position, config.initial_std)
        if config.width > WIDE:
            initial.as_if_narrow(embedding, stack, config.width)
        if embedding.position.embedding_dim == config.width:  # not where places are widened first
            initial.neighbours(embedding.position, _both_sided(stack)[:LOOKING])
        if len(stack.blocks) > DEEP:
            initial.quiet(stack.blocks[LOOKING:])

    def forward(self, batch: Batch) -> States:
        if self.engine is not None and self.engine.takes(batch):
            return self.engine.states(batch)
        return self.run_modules(batch)

    def run_modules(self, batch: Batch) -> States:
        """The states of all layers by our own modules, whatever the engine."""
        x, layout, asked = self.embedding(batch), batch.layout, batch.asked
        if not (few_shapes.in_bf16(x) and few_shapes.plain(layout)):
            return States(self.stack(x, layout, asked), layout)
        count = len(x)
        if asked is not None:  # the first row behind the tokens, as often as it takes
            more = few_shapes.rounded(len(asked)) - len(asked)
            asked = torch.cat([asked, asked.new_full((more,), count)])
        layers = self.stack(few_shapes.filled(x, least=1), layout, asked)
        return States([layer[:count] for layer in layers], layout)

    def depth(self) -> list[nn.Module]:
        return [self.embedding, *self.stack.blocks]

    def token_table(self) -> Tensor:
        return self.embedding.token.weight

    def flops(self, length: int) -> float:
        c = self.config
        return float(
            c.layers * (2 * (4 * c.width**2 + 2 * c.width * c.hidden) + 4 * c.width * length)
        )


def post_norm_block(config: Any, norm_eps: float, pattern: Pattern | None = None) -> Block:
    """A block as BERT has it: width, heads, hidden, activation and dropouts as configured."""
    width, drop = config.width, config.dropout
    attention = SelfAttention(width, config.heads, config.attention_dropout, pattern)
    feed = FeedForward(width, config.hidden, activation(config.activation))
    return Block(
        PostNorm(attention, nn.LayerNorm(width, eps=norm_eps), drop),
        PostNorm(feed, nn.LayerNorm(width, eps=norm_eps), drop),
    )


# Far above every public model; a file that asks for more was made to exhaust the machine.
LARGEST = {"layers": 1_000, "decoder_layers": 1_000}
LARGEST_SIZE = 1 << 24


def check_positive(config: Any, *names: str) -> None:
    """Refuses sizes below 1 (no layers at all is possible)."""
    for name in ("vocabulary", "width", "layers", "heads", "hidden", "positions", *names):
        value = getattr(config, name)
        if value < (0 if name in LARGEST else 1):
            raise UserError(f"a model with {name} = {value} cannot be built")
        most = LARGEST.get(name, LARGEST_SIZE)
        if value > most:
            told = shorten(str(value), 40)
            raise UserError(f"a model with {name} = {told} cannot be built; {most:,} is the most")
    _check_shares(config)


def _check_shares(config: Any) -> None:
    """Refuses what would make every state or weight something that is no number."""
    for name, value in vars(config).items():
        share = name.endswith("dropout")
        if not (share or name in ("norm_eps", "initial_std", "initial_factor")):
            continue
        if not 0 <= value < (1 if share else math.inf):
            wanted = "at least 0 and below 1" if share else "0 or more"
            raise UserError(f"a model with {name} = {value} cannot be built; it must be {wanted}")


def check_sizes(config: Any, *names: str) -> None:
    """Refuses sizes of which no model can be built."""
    check_positive(config, *names)
    if config.width % config.heads:
        raise UserError(
            f"{config.heads} heads do not divide a width of {config.width}; change one of them"
        )


def post_norm_names(layer: str, attention: Sequence[str], feed: Sequence[str]) -> Names:
    """Public names of the blocks: attention as query, key, value, out, norm; feed-forward as up,
    down, norm."""
    ours, (query, key, value, out, norm) = "stack.blocks.{i}.", [layer + n for n in attention]
    up, down, last = [layer + n for n in feed]
    return {
        ours + "attention.part.qkv": (query, key, value),
        ours + "attention.part.out": out,
        ours + "attention.norm": norm,
        ours + "feed.part.up": up,
        ours + "feed.part.down": down,
        ours + "feed.norm": last,
    }


def _nothing_more(config: Any) -> dict[str, Any]:
    return {}


def _as_it_is(config: Any, values: Mapping[str, Any]) -> Any:
    return config


class Turned(str):
    """A public name whose matrices lie the other way round: inputs first (Conv1D of the GPTs)."""


# Our module name -> the public one; several public names are stacked (query, key, value in one
# matrix).
# "{i}" stands for the number of a layer. Names are given without .weight and .bias.
Names = Mapping[str, str | tuple[str, ...]]


@dataclass(frozen=True)
class Public:
    """How the public format of a family names everything."""

    model_type: str
    config: Mapping[str, str]  # our field -> public field
    body: Names
    heads: Mapping[
        str, Names
    ]  # head -> names; a name that starts with "^" lies inside the body's prefix
    prefix: str  # stands before the body's names when there is a head
    architectures: Mapping[
        frozenset[str], str
    ]  # which heads -> the class that transformers calls it
    ignored: tuple[str, ...] = ()  # tensors that carry nothing (buffers, tied copies); * is any
    copies: Mapping[str, str] = field(
        default_factory=dict
    )  # a tied copy that some files hold instead of the original -> the original
    fixed: Mapping[str, Any] = field(
        default_factory=dict
    )  # public settings of which we know one value
    absent: Mapping[str, Any] = field(
        default_factory=dict
    )  # what transformers takes for a missing setting, where that is not our default
    # what is not the same value under another name, in both directions
    write: Callable[[Any], dict[str, Any]] = _nothing_more  # config -> more public settings
    read: Callable[[Any, Mapping[str, Any]], Any] = _as_it_is  # config, settings -> the true config
