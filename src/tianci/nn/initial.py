"""First weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tianci.nn.attention import SelfAttention
from tianci.nn.feedforward import FeedForward

DRAWN = ("normal_", "uniform_", "trunc_normal_", "kaiming_uniform_", "kaiming_normal_",
         "xavier_uniform_", "xavier_normal_", "orthogonal_")  # fmt: skip


class _Undrawn(TorchFunctionMode):
    """Random weights are left as they are: drawing them without memory would import torch's
    compiler, which takes longer than all the rest of a short command."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in DRAWN:
            return args[0] if args else kwargs.get("tensor")
        return func(*args, **kwargs)


@contextmanager
def nothing() -> Iterator[None]:
    """Modules that are built inside have shapes, but no memory and no first weights."""
    with torch.device("meta"), _Undrawn():
        yield


def normal(module: nn.Module, std: float) -> None:
    """BERT's choice: matrices and tables from N(0, std), biases 0, norms 1 and 0."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=std)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)


@torch.no_grad()
def waves(table: nn.Embedding, size: float) -> None:
    """Positions as sines and cosines of growing wavelength, `size` high; learned from there on.

    Neighbouring positions begin alike and a shift is a rotation, so attention finds "the token
    before" early: in our runs the plateau ends after a third of the tokens it takes from random
    vectors.
    """
    if table.weight.is_meta:
        return
    count, width = table.weight.shape
    place = torch.arange(count, device=table.weight.device)[:, None]
    half = torch.arange(0, width, 2, device=table.weight.device)
    angle = place * torch.exp(half * (-math.log(10_000) / width))
    table.weight[:, 0::2] = size * torch.sin(angle)
    table.weight[:, 1::2] = size * torch.cos(angle[:, : width // 2])


NARROW = 256  # the width for which BERT's 0.02 is right


@torch.no_grad()
def as_if_narrow(embedding: nn.Module, stack: nn.Module, width: int) -> None:
    """Makes first weights of a wide model smaller, so that it begins as a narrow one does.

    With the same numbers everywhere the parts of a wide model are loud: what a block adds is as
    large as the stream, and drowns what came from the neighbours. The output layer shares the
    tokens' table: the wider it is, the larger are the first logits, which say nothing, and the less
    a row moves in one step at the rates that wide models learn with. BERT-large stayed at the
    plateau (LOG.md). What the embedding gives is normalised, so it stays as it was.
    """
    for part in (*embedding.modules(), *stack.modules()):
        if isinstance(part, nn.Embedding):
            part.weight *= NARROW / part.embedding_dim
        elif isinstance(part, nn.Linear):
            part.weight *= (NARROW / width) ** 0.5


FAST = 8  # pairs of fast waves among the positions; 5 and 16 did nearly as well
FASTEST, SLOWEST = math.pi / 2, 0.05  # radians from one position to the next
HEIGHT, SHARPNESS = 3.0, 2.0  # of the fast waves against the others; of the first look


@torch.no_grad()
def neighbours(table: nn.Embedding, attentions: Sequence[SelfAttention]) -> None:
    """Heads that begin by looking beside them: one token back, one ahead, two back, two ahead ...

    The first dimensions of the positions (already waves) become fast waves. A shift of a wave is a
    rotation: a query that is its position, rotated, meets its best key that many places away. So
    the first steps already know the tokens around, and a masked objective leaves the plateau of
    knowing only frequencies sooner (LOG.md: much sooner alone, little beside next_sentence). All of
    it is ordinary weights, learned from there on.
    """
    if table.weight.is_meta or not attentions:
        return
    size = attentions[0].size
    # at most an eighth of the width, or little is left to tell tokens apart
    pairs = min(FAST, size // 2, table.embedding_dim // 16)
    if not pairs:
        return
    step = torch.arange(pairs) / max(1, pairs - 1)
    speed = FASTEST * (SLOWEST / FASTEST) ** step  # (pairs,) radians per position
    height = HEIGHT * float(table.weight.abs().max())
    angle = torch.arange(len(table.weight))[:, None] * speed
    table.weight[:, : 2 * pairs] = height * torch.stack([angle.sin(), angle.cos()], -1).flatten(1)
    for attention in attentions:
        gain = SHARPNESS * (attention.size / 64) ** 0.25  # scores are divided by sqrt(size)
        query, key, _ = attention.qkv.weight.view(3, attention.heads, attention.size, -1)
        for head in range(attention.heads):
            offset = (head // 2 + 1) * (1 if head % 2 else -1)
            key[head, : 2 * pairs] = 0.0
            key[head, : 2 * pairs, : 2 * pairs] = gain * torch.eye(2 * pairs)
            query[head, : 2 * pairs] = 0.0
            query[head, : 2 * pairs, : 2 * pairs] = gain * _rotation(offset * speed)


@torch.no_grad()
def quiet(blocks: Iterable[nn.Module]) -> None:
    """Blocks that begin by adding nothing to the stream: what leaves their parts is 0.

    A deep stack then begins as a shallow one, and its upper blocks join in as they learn. Otherwise
    each of them adds noise of its own, and the loss of BERT-base stayed at the plateau (LOG.md).
    """
    for block in blocks:
        for part in block.modules():
            if isinstance(part, SelfAttention):
                nn.init.zeros_(part.out.weight)
            if isinstance(part, FeedForward):
                nn.init.zeros_(part.down.weight)


def _rotation(angle: Tensor) -> Tensor:
    """(pairs,) -> (2 pairs, 2 pairs): makes of the sine and cosine of any x those of x + angle."""
    sine = torch.arange(0, 2 * len(angle), 2)  # rows and columns of the sines
    turned = torch.zeros(2 * len(angle), 2 * len(angle))
    turned[sine, sine] = turned[sine + 1, sine + 1] = angle.cos()
    turned[sine, sine + 1], turned[sine + 1, sine] = angle.sin(), -angle.sin()
    return turned
