"""What attention has seen already: a text that grows by a token is not read from the start again.

Shapes: N texts, H heads, D width of a head, R room for tokens, S tokens of the longest source.
`attend` asks the layout: a `Recording` keeps the keys and values of whole sequences, a `Following`
adds one token to each text and looks at all before it. Any model works whose layers call `attend`
(and `attend_across`, where a decoder looks at a source) once each, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from tianci.batch import Layout
from tianci.nn.patterns import Biased


class Past:
    """Keys and values of all tokens so far, layer by layer."""

    def __init__(self, room: int):
        self.room = room
        self.kept: list[tuple[Tensor, Tensor]] = []  # (N, H, R, D) each
        self.sizes = torch.zeros(0, dtype=torch.int64)  # (N,) tokens so far
        self.lengths: list[int] = []  # the same on the host: asking for them waits for nothing
        self.sources: list[tuple[Tensor, Tensor]] = []  # (N, H, S, D) each
        self._owners: list[int] = []  # the source of each text
        self._there: Tensor | None = None  # (N, 1, 1, S) where sources are; None: everywhere
        self._layer = 0  # whose turn it is
        self._source_layer = 0
        self._seen: Tensor | None = None  # (N, 1, 1, longest) of this step, None: everywhere

    # ------------------------------------------------------------ reading

    def record(self, key: Tensor, value: Tensor, layout: Layout) -> None:
        """Keeps (T, H, D) of a layer."""
        self.lengths = list(layout.lengths)
        self.sizes = layout.starts[1:] - layout.starts[:-1]
        self.kept.append((self._spread(key, layout), self._spread(value, layout)))

    def record_source(self, key: Tensor, value: Tensor, layout: Layout) -> None:
        """Keeps (S, H, D) of the sources that a decoder's layer looks at."""
        self._owners = list(range(len(layout)))
        self._there = None if layout.even else layout.mask[:, None, None]
        self.sources.append((layout.pad(key).transpose(1, 2), layout.pad(value).transpose(1, 2)))

    def _spread(self, packed: Tensor, layout: Layout) -> Tensor:
        grid = packed.new_zeros(len(layout), packed.shape[1], self.room, packed.shape[2])
        grid[:, :, : layout.longest] = layout.pad(packed).transpose(1, 2)
        return grid

    # ------------------------------------------------------------ going on

    def choose(self, texts: Sequence[int]) -> None:
        """Goes on with these texts, in this order; one may come several times."""
        if list(texts) == list(range(len(self.lengths))):
            return
        chosen = torch.tensor(texts, dtype=torch.int64, device=self.sizes.device)
        longest = max(self.lengths, default=0)
        self.sizes = self.sizes[chosen]
        self.lengths = [self.lengths[n] for n in texts]
        self.kept = [
            (self._picked(key, chosen, longest), self._picked(value, chosen, longest))
            for key, value in self.kept
        ]
        owners = [self._owners[n] for n in texts] if self.sources else []
        if owners != self._owners:  # beams of one source change places: nothing to copy
            self.sources = [(key[chosen], value[chosen]) for key, value in self.sources]
            self._there = None if self._there is None else self._there[chosen]
            self._owners = owners

    def _picked(self, grid: Tensor, chosen: Tensor, longest: int) -> Tensor:
        # what is not written yet is hidden, but 0 times a number that never was is not 0
        fresh = grid.new_zeros(len(chosen), *grid.shape[1:])
        fresh[:, :, :longest] = grid[:, :, :longest].index_select(0, chosen)
        return fresh

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, pattern: Biased | None = None
    ) -> Tensor:
        """(N, H, D) each, one new token per text -> (N, H, D)."""
        keys, values = self.kept[self._layer]
        longest = max(self.lengths) + 1
        even = len(set(self.lengths)) == 1
        if even:
            keys[:, :, longest - 1], values[:, :, longest - 1] = key, value
        else:
            text = torch.arange(len(self.lengths), device=self.sizes.device)
            keys[text, :, self.sizes], values[text, :, self.sizes] = key, value
        if self._layer == 0:
            place = torch.arange(longest, device=self.sizes.device)
            self._seen = None if even else (place <= self.sizes[:, None])[:, None, None]
        mask, scale = self._seen, None
        if pattern is not None:
            bias = pattern.ahead(self.lengths[:1] if even else self.lengths, longest)
            bias = bias.to(query.dtype)
            mask = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
            scale = 1.0
        mixed = F.scaled_dot_product_attention(
            query[:, :, None], keys[:, :, :longest], values[:, :, :longest], mask, scale=scale
        )
        self._layer = (self._layer + 1) % len(self.kept)
        if self._layer == 0:  # the last layer has seen the token
            self.sizes = self.sizes + 1
            self.lengths = [n + 1 for n in self.lengths]
        return mixed.squeeze(2)

    def attend_across(self, query: Tensor) -> Tensor:
        """(N, H, D) -> (N, H, D): each text's new token looks at its source; no scale (T5)."""
        keys, values = self.sources[self._source_layer]
        self._source_layer = (self._source_layer + 1) % len(self.sources)
        mixed = F.scaled_dot_product_attention(
            query[:, :, None], keys, values, self._there, scale=1.0
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
        super().__init__([1] * len(past.lengths), past.sizes.device)
        self.past = past

    @cached_property
    def position(self) -> Tensor:
        return self.past.sizes
