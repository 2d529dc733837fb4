"""Blocks, and a stack of them."""

from __future__ import annotations

from collections.abc import Sequence

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


class Stack(nn.Module):
    """Runs the blocks in order and keeps what each of them says."""

    def __init__(self, blocks: Sequence[nn.Module]):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: Tensor, layout: Layout) -> list[Tensor]:
        layers = [x]
        for block in self.blocks:
            layers.append(block(layers[-1], layout))
        return layers


class NormedStack(Stack):
    """Pre-norm blocks leave their stream as it is; the last layer is normalised (GPT-2, T5)."""

    def __init__(self, blocks: Sequence[nn.Module], norm: nn.Module):
        super().__init__(blocks)
        self.norm = norm

    def forward(self, x: Tensor, layout: Layout) -> list[Tensor]:
        layers = super().forward(x, layout)
        return [*layers[:-1], self.norm(layers[-1])]
