"""Conditional random field over the labels of neighbouring words (Lafferty and others, 2001).

Shapes: N words in all, lying end to end, in B sequences of given lengths, the longest of L words;
C labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

Lengths = Sequence[int]


class Chain(NamedTuple):
    """Scores of label pairs, of first labels and of last labels, as decoding needs them."""

    step: Tensor  # (C, C), [from, to]
    begin: Tensor  # (C,)
    end: Tensor  # (C,)

    @classmethod
    def free(cls, labels: int) -> Chain:
        """A chain that prefers nothing."""
        return cls(torch.zeros(labels, labels), torch.zeros(labels), torch.zeros(labels))

    def barring(self, forbidden: Tensor) -> Chain:
        """The same without some steps; `forbidden` is (C + 1, C), row C for the beginning."""
        low = torch.finfo(self.step.dtype).min / 4  # two of them may be added
        forbidden = forbidden.to(self.step.device)
        step = self.step.masked_fill(forbidden[:-1], low)
        return Chain(step, self.begin.masked_fill(forbidden[-1], low), self.end)

    @torch.no_grad()
    def best(self, emissions: Tensor, lengths: Lengths) -> list[list[int]]:
        """The best label sequences (Viterbi) for scores (N, C)."""
        if not sum(lengths):
            return [[] for _ in lengths]
        grid, inside = _grid(emissions, lengths), _inside(lengths).to(emissions.device)
        alpha = self.begin + grid[:, 0]
        back: list[Tensor] = []
        stay = torch.arange(grid.shape[2], device=grid.device).expand_as(alpha)
        for t in range(1, grid.shape[1]):
            best, where = (alpha[:, :, None] + self.step).max(dim=1)
            on = inside[:, t, None]
            alpha = torch.where(on, best + grid[:, t], alpha)
            back.append(torch.where(on, where, stay))  # past the end a label points at itself
        label = (alpha + self.end).argmax(1)
        path = [label]
        for where in reversed(back):
            label = where.gather(1, label[:, None]).squeeze(1)
            path.append(label)
        rows = torch.stack(path[::-1], dim=1).tolist()
        return [row[:length] for row, length in zip(rows, lengths, strict=True)]

    @torch.no_grad()
    def marginals(self, emissions: Tensor, lengths: Lengths) -> Tensor:
        """(N, C) the probability of each label of each word, over all label sequences."""
        if not sum(lengths):
            return torch.zeros_like(emissions)
        grid, inside = _grid(emissions, lengths), _inside(lengths).to(emissions.device)
        ahead = [self.begin + grid[:, 0]]
        for t in range(1, grid.shape[1]):
            ahead.append(self._forward(ahead[-1], grid[:, t]))
        behind = [self.end.expand_as(ahead[0])]
        for t in range(grid.shape[1] - 1, 0, -1):
            to = (grid[:, t] + behind[-1])[:, None, :]
            new = torch.logsumexp(self.step + to, dim=2)
            behind.append(torch.where(inside[:, t, None], new, self.end))
        both = torch.stack(ahead, dim=1) + torch.stack(behind[::-1], dim=1)
        return both.softmax(2)[inside]

    def partition(self, grid: Tensor, inside: Tensor) -> Tensor:
        """(B,) log of the summed weights of all label sequences; grid (B, L, C), inside (B, L)."""
        alpha = self.begin + grid[:, 0]
        for t in range(1, grid.shape[1]):
            alpha = torch.where(inside[:, t, None], self._forward(alpha, grid[:, t]), alpha)
        return torch.logsumexp(alpha + self.end, dim=1)

    def _forward(self, alpha: Tensor, emissions: Tensor) -> Tensor:
        return torch.logsumexp(alpha[:, :, None] + self.step, dim=1) + emissions


class ChainField(nn.Module):
    """A chain that learns."""

    def __init__(self, labels: int):
        super().__init__()
        self.step = nn.Parameter(torch.zeros(labels, labels))
        self.begin = nn.Parameter(torch.zeros(labels))
        self.end = nn.Parameter(torch.zeros(labels))

    @property
    def chain(self) -> Chain:
        return Chain(self.step, self.begin, self.end)

    def loss(self, emissions: Tensor, gold: Tensor, lengths: Lengths) -> Tensor:
        """Summed negative log-likelihood of whole label sequences; emissions (N, C), gold (N,).

        All lengths are at least 1.
        """
        inside = _inside(lengths).to(emissions.device)
        whole = self.chain.partition(_grid(emissions, lengths), inside).sum()
        ends = torch.tensor(lengths, device=gold.device).cumsum(0) - 1
        begins = torch.cat([ends.new_zeros(1), ends[:-1] + 1])
        # a step leads from each word to the next, but not from one sequence to another
        goes_on = torch.ones_like(gold, dtype=torch.bool).index_fill(0, ends, False)[:-1]
        right = (
            emissions.gather(1, gold[:, None]).sum()
            + self.step[gold[:-1], gold[1:]][goes_on].sum()
            + self.begin[gold[begins]].sum()
            + self.end[gold[ends]].sum()
        )
        return whole - right

    def decode(
        self, emissions: Tensor, lengths: Lengths, forbidden: Tensor | None = None
    ) -> list[list[int]]:
        """The best label sequences; `forbidden` bars steps as `Chain.barring` says."""
        chain = self.chain if forbidden is None else self.chain.barring(forbidden)
        return chain.best(emissions, lengths)


def _grid(x: Tensor, lengths: Lengths) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(list(torch.split(x, list(lengths))), batch_first=True)


def _inside(lengths: Lengths) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
