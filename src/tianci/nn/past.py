"""What attention has seen already: a text that grows by a token is not read from the start again.

Shapes: N texts, H heads, D width of a head, R room for tokens. `attend` asks the layout: a
`Recording` keeps the keys and values of whole sequences, a `Following` adds one token to each text
and looks at all before it. Any model works whose layers call `attend` once each, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from tianci.batch import Layout


class Past:
    """Keys and values of all tokens so far, layer by layer."""

    def __init__(self, room: int):
        self.room = room
        self.kept: list[tuple[Tensor, Tensor]] = []  # (N, H, R, D) each
        self.sizes = torch.zeros(0, dtype=torch.int64)  # (N,) tokens so far
        self._layer = 0

    def record(self, key: Tensor, value: Tensor, layout: Layout) -> None:
        """Keeps (T, H, D) of a layer."""
        self.sizes = layout.starts[1:] - layout.starts[:-1]
        self.kept.append((self._spread(key, layout), self._spread(value, layout)))

    def _spread(self, packed: Tensor, layout: Layout) -> Tensor:
        grid = packed.new_zeros(len(layout), packed.shape[1], self.room, packed.shape[2])
        grid[:, :, : layout.longest] = layout.pad(packed).transpose(1, 2)
        return grid

    def choose(self, texts: Sequence[int]) -> None:
        """Goes on with these texts, in this order; one may come several times."""
        if list(texts) == list(range(len(self.sizes))):
            return
        chosen = torch.tensor(texts, dtype=torch.int64, device=self.sizes.device)
        self.sizes = self.sizes[chosen]
        self.kept = [(key[chosen], value[chosen]) for key, value in self.kept]

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """(N, H, D) each, one new token per text -> (N, H, D)."""
        keys, values = self.kept[self._layer]
        self._layer = (self._layer + 1) % len(self.kept)
        text = torch.arange(len(self.sizes), device=self.sizes.device)
        keys[text, :, self.sizes], values[text, :, self.sizes] = key, value
        longest = int(self.sizes.max()) + 1
        seen = torch.arange(longest, device=text.device) <= self.sizes[:, None]
        if self._layer == 0:  # the last layer has seen the token
            self.sizes = self.sizes + 1
        mixed = F.scaled_dot_product_attention(
            query[:, :, None], keys[:, :, :longest], values[:, :, :longest], seen[:, None, None]
        )
        return mixed.squeeze(2)


class Recording(Layout):
    """Whole sequences whose keys and values are kept."""

    def __init__(self, layout: Layout, past: Past):
        super().__init__(layout.lengths, layout.device, layout.prefix)
        self.past = past


class Following(Layout):
    """One token behind each text of the past."""

    def __init__(self, past: Past):
        super().__init__([1] * len(past.sizes), past.sizes.device)
        self.past = past

    @cached_property
    def position(self) -> Tensor:
        return self.past.sizes
