"""Packed tokens and where they sit: sequences lie end to end, nothing is padded outside attention.

Shapes: T tokens in all, B sequences, L tokens in the longest one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor


class Group(NamedTuple):
    """Neighbouring sequences of equal length: a (rows, length) rectangle of packed tokens."""

    start: int
    rows: int
    length: int

    @property
    def tokens(self) -> int:
        return self.rows * self.length


class Layout:
    """Where each packed token sits. Lengths live on the host: asking for them waits for no GPU.

    `prefix` says how many tokens of each sequence are a source that sees itself as a whole; the
    tokens behind it see the source and what stands to their left (UniLM's prefix mask). Attention
    obeys it, whatever the pattern of the model.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        device: torch.device | str = "cpu",
        prefix: Sequence[int] | None = None,
    ):
        self.lengths = tuple(map(int, lengths))
        if min(self.lengths, default=1) < 1:
            raise ValueError("a packed sequence has at least one token")
        self.prefix = None if prefix is None else tuple(int(n) for n in prefix)
        if self.prefix is not None and len(self.prefix) != len(self.lengths):
            raise ValueError(f"{len(self.prefix)} prefixes for {len(self.lengths)} sequences")
        self.device = torch.device(device)
        self.tokens = sum(self.lengths)
        self.longest = max(self.lengths, default=0)

    def __len__(self) -> int:
        return len(self.lengths)

    def to(self, device: torch.device | str) -> Layout:
        """The same layout with its index tensors on another device."""
        same = torch.device(device) == self.device
        return self if same else Layout(self.lengths, device, self.prefix)

    def only(self, numbers: Sequence[int]) -> Layout:
        """The layout of some of the sequences."""
        prefix = None if self.prefix is None else [self.prefix[n] for n in numbers]
        return Layout([self.lengths[n] for n in numbers], self.device, prefix)

    @property
    def even(self) -> bool:
        """Whether all sequences have the same length."""
        return self.longest * len(self) == self.tokens

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The runs of equal lengths; few of them when the batch is sorted by length."""
        groups: list[Group] = []
        start = 0
        for length in self.lengths:
            if groups and groups[-1].length == length:
                groups[-1] = groups[-1]._replace(rows=groups[-1].rows + 1)
            else:
                groups.append(Group(start, 1, length))
            start += length
        return tuple(groups)

    @cached_property
    def starts(self) -> Tensor:
        """(B + 1,) where each sequence begins, and T."""
        lengths = torch.tensor((0, *self.lengths), dtype=torch.int64)
        return lengths.cumsum(0).to(self.device)

    @cached_property
    def sequence(self) -> Tensor:
        """(T,) the number of the sequence a token belongs to."""
        lengths = torch.tensor(self.lengths, dtype=torch.int64)
        return torch.repeat_interleave(torch.arange(len(self)), lengths).to(self.device)

    @cached_property
    def position(self) -> Tensor:
        """(T,) 0, 1, 2, ... inside each sequence."""
        return torch.arange(self.tokens, device=self.device) - self.starts[self.sequence]

    @cached_property
    def reach(self) -> Tensor:
        """(T,) the last position that a token sees, where there is a prefix."""
        prefix = torch.tensor(self.prefix or (0,) * len(self), dtype=torch.int64)
        return torch.maximum(self.position, prefix.to(self.device)[self.sequence] - 1)

    def first(self) -> Tensor:
        """(B,) index of the first token of each sequence."""
        return self.starts[:-1]

    def last(self) -> Tensor:
        """(B,) index of the last token of each sequence."""
        return self.starts[1:] - 1

    @cached_property
    def mask(self) -> Tensor:
        """(B, L) True where the padded form has a token."""
        lengths = self.starts[1:] - self.starts[:-1]
        return torch.arange(self.longest, device=self.device) < lengths[:, None]

    def pad(self, packed: Tensor, fill: float = 0.0) -> Tensor:
        """(T, ...) to (B, L, ...)."""
        shape = (len(self), self.longest, *packed.shape[1:])
        if self.even:
            return packed.reshape(shape)
        grid = packed.new_full((len(self) * self.longest, *packed.shape[1:]), fill)
        place = self.sequence * self.longest + self.position
        return grid.index_copy(0, place, packed).reshape(shape)

    def pack(self, padded: Tensor) -> Tensor:
        """(B, L, ...) back to (T, ...)."""
        flat = padded.reshape(len(self) * self.longest, *padded.shape[2:])
        return flat if self.even else flat[self.sequence * self.longest + self.position]

    def shift(self, packed: Tensor, by: int) -> Tensor:
        """Each token's neighbour `by` places to the left (right if negative); 0 beyond the ends."""
        if self.tokens == 0:
            return packed
        source = torch.arange(self.tokens, device=self.device) - by
        begin, end = self.starts[:-1][self.sequence], self.starts[1:][self.sequence]
        inside = (source >= begin) & (source < end)
        moved = packed[source.clamp(0, self.tokens - 1)]
        return moved * inside.reshape(-1, *[1] * (packed.dim() - 1)).to(packed.dtype)


@dataclass(frozen=True)
class Batch:
    """All that travels from data to model; complete when built."""

    tokens: Tensor  # (T,)
    layout: Layout
    segments: Tensor | None = None  # (T,)
    targets: Mapping[str, Tensor] = field(default_factory=dict)
    decoder: Batch | None = None
    # (A,) tokens whose last states will be read, each once; a model may leave the others out
    asked: Tensor | None = None

    @classmethod
    def of(
        cls, sequences: Sequence[Sequence[int]], segments: Sequence[Sequence[int]] | None = None
    ) -> Batch:
        """Packs lists of ids (and their segments), in the order given."""
        return cls(
            tokens=_join(sequences),
            layout=Layout([len(s) for s in sequences]),
            segments=None if segments is None else _join(segments),
        )

    def to(self, device: torch.device | str) -> Batch:
        return replace(
            self,
            tokens=self.tokens.to(device),
            layout=self.layout.to(device),
            segments=None if self.segments is None else self.segments.to(device),
            targets={name: value.to(device) for name, value in self.targets.items()},
            decoder=None if self.decoder is None else self.decoder.to(device),
            asked=None if self.asked is None else self.asked.to(device),
        )


def _join(lists: Sequence[Sequence[int]]) -> Tensor:
    return torch.tensor([x for one in lists for x in one], dtype=torch.int64)
