"""Blocks, and a stack of them.

Often few states of the last layer are read: those of masked tokens (15 %), or the first of each
text. Only these go through the last block's output product and feed-forward part, which are three
quarters of its work; the result is the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tianci.batch import Layout


class Block(nn.Module):
    """Attention, then feed-forward, each already wrapped in its residual."""

    def __init__(self, attention: nn.Module, feed: nn.Module):
        super().__init__()
        self.attention, self.feed = attention, feed

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        out: Tensor = self.feed(self.attention(x, layout))
        return out

    def at(self, asked: Tensor, x: Tensor, layout: Layout) -> Tensor:
        """(A, W): what the block says of some tokens."""
        out: Tensor = self.feed(self.attention.at(asked, x, layout))  # type: ignore[operator]
        return out


class Stack(nn.Module):
    """Runs the blocks in order and keeps what each of them says."""

    def __init__(self, blocks: Sequence[nn.Module]):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def order(self) -> list[nn.Module]:
        """The blocks as they are run."""
        return list(self.blocks)

    def forward(self, x: Tensor, layout: Layout, asked: Tensor | None = None) -> list[Tensor]:
        """All layers; the last one is not a number where it was not asked for.

        There may be rows behind the tokens of the layout, which mean nothing (few_shapes.py).
        """
        blocks, layers = self.order(), [x]
        for i, block in enumerate(blocks):
            if asked is not None and i == len(blocks) - 1 and isinstance(block, Block):
                said = self.finished(block.at(asked, layers[-1], layout))
                # not a number rather than zero: who reads what was not asked for shall notice
                empty = said.new_full((len(x), *said.shape[1:]), torch.nan)
                return [*layers, empty.index_copy(0, asked, said)]
            layers.append(block(layers[-1], layout))
        return [*layers[:-1], self.finished(layers[-1])]

    def finished(self, last: Tensor) -> Tensor:
        """What becomes of the last layer."""
        return last


class NormedStack(Stack):
    """Pre-norm blocks leave their stream as it is; the last layer is normalised (GPT-2, T5)."""

    def __init__(self, blocks: Sequence[nn.Module], norm: nn.Module):
        super().__init__(blocks)
        self.norm = norm

    def finished(self, last: Tensor) -> Tensor:
        out: Tensor = self.norm(last)
        return out
