"""Masked language model: hide 15 % of the tokens, guess them from both sides (BERT, 2018)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tianci.batch import Batch
from tianci.errors import UserError
from tianci.goals.base import Goal, Heads, Loss
from tianci.models.base import Model, States
from tianci.nn.heads import VocabularyHead
from tianci.settings import setting

Flags = NDArray[np.bool_]
Ids = NDArray[np.int64]


class Corrupted(NamedTuple):
    """Tokens as the model sees them, and where it is asked what."""

    tokens: NDArray[Any]  # (T,)
    places: Ids  # where the original token is to be guessed, in order

    @property
    def chosen(self) -> Flags:
        """(T,) True at the places."""
        flags = np.zeros(len(self.tokens), bool)
        flags[self.places] = True
        return flags


@dataclass(frozen=True)
class Masked(Goal):
    """Of the chosen words 80 % become [MASK], 10 % random tokens, 10 % stay."""

    name: ClassVar[str] = "masked"
    heads: ClassVar[tuple[str, ...]] = ("masked",)

    rate: float = setting(0.15, "share of the tokens that are to be guessed")
    mask: float = setting(0.8, "of these, the share that becomes [MASK]")
    random: float = setting(0.1, "of these, the share that becomes a random token")
    whole_words: bool = setting(True, "choose words, never parts of them")
    span: float = setting(0.0, "mean number of words in a masked span (0: single words)")
    static: bool = setting(False, "the same masks in every epoch")

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise UserError(f"masked.rate is {self.rate}, but must lie between 0 and 1")
        # so written that "nan", which is no number, is refused too
        if not (self.mask >= 0 and self.random >= 0 and self.mask + self.random <= 1):
            raise UserError(
                f"masked.mask + masked.random is {self.mask + self.random:g}, but may be at most 1"
            )
        if self.span and not 1 <= self.span < math.inf:
            raise UserError(f"masked.span is {self.span}, but must be 0 or at least 1")

    def corrupt(
        self,
        tokens: NDArray[Any],
        first: Ids,
        special: Flags,
        starts: Flags,
        mask_id: int,
        ordinary: NDArray[Any],
        rng: np.random.Generator,
    ) -> Corrupted:
        """Chooses words, of each sequence its share, and hides them.

        `first` says where sequences begin, `starts` (T,) is True where a word begins, `ordinary`
        holds the ids a random token is drawn from. A word is hidden as a whole, in one way.
        """
        # [CLS] and [SEP] belong to no word; a sequence begins a word even if its first piece is
        # "##x"
        begins = np.ones(len(tokens) + 1, bool)  # the last one is the end
        np.logical_or(special[1:], special[:-1], out=begins[1:-1])
        begins[first] = True
        rows = begins
        if self.span:  # a row of words is hidden as one; it ends where its text ends
            new = rng.random(len(tokens)) < 1 / self.span
            rows = begins.copy()
            rows[:-1] |= starts & new if self.whole_words else new
        begins[:-1] |= starts if self.whole_words else True

        words = np.flatnonzero(rows[:-1] & ~special)
        borders = np.append(np.searchsorted(words, first), len(words))
        # from here on only what is hidden counts, a seventh of all
        at = words[_shares(borders, self.rate, rng)]
        sizes = _to_the_next(at, rows)
        places = _spread(at, sizes)
        if self.span:  # each word of a row has a die of its own
            sizes = np.diff(np.flatnonzero(begins[places]), append=len(places))
        dice = np.repeat(rng.random(len(sizes)), sizes)
        hidden = tokens.copy()
        hidden[places[dice < self.mask]] = mask_id
        swap = places[(dice >= self.mask) & (dice < self.mask + self.random)]
        hidden[swap] = ordinary[rng.integers(len(ordinary), size=len(swap))]
        return Corrupted(hidden, places)

    def count(self, batch: Batch) -> int:
        return len(batch.targets["masked_at"])

    def asks(self, heads: Heads, batch: Batch) -> Tensor:
        return batch.targets["masked_at"]

    def loss(self, model: Model, heads: Heads, states: States, batch: Batch) -> Loss:
        # select, then multiply: the vocabulary product runs on 15 % of the tokens only
        chosen = states.last[batch.targets["masked_at"]]
        answers = batch.targets["masked_is"]
        return Loss(
            *cast(VocabularyHead, heads["masked"]).loss(chosen, model.token_table(), answers)
        )


def _shares(borders: Ids, rate: float, rng: np.random.Generator) -> Ids:
    """Of the things between each two borders a share at random, in order.

    Exactly so many as the rate says, up or down to a whole number by chance; each with the same
    probability. A die for each word is cheaper, but seemed to be learned from more slowly (LOG.md).
    """
    sizes = np.diff(borders)
    if rate > 0.5:  # fewer are left out
        kept = np.ones(borders[-1], bool)
        kept[_shares(borders, 1 - rate, rng)] = False
        return np.flatnonzero(kept)
    counts = (sizes * rate + rng.random(len(sizes))).astype(np.int64)
    first, room = np.repeat(borders[:-1], counts), np.repeat(sizes, counts)
    waiting = np.arange(len(first), dtype=np.int32)  # for a place
    taken = np.full(borders[-1], -1, np.int32)  # by whom
    while len(waiting):
        at = (rng.random(len(room)) * room).astype(np.int64)
        at += first
        free = np.flatnonzero(taken[at] < 0)
        taken[at[free]] = waiting[free]  # of several that want it, the last one
        again = np.flatnonzero(taken[at] != waiting)
        waiting, first, room = waiting[again], first[again], room[again]
    return np.flatnonzero(taken >= 0)


def _to_the_next(at: Ids, begins: Flags) -> Ids:
    """How many places there are from each of these to where the next thing begins."""
    sizes = np.ones(len(at), np.int64)
    longer = np.flatnonzero(~begins[at + 1])
    while len(longer):
        sizes[longer] += 1
        longer = longer[~begins[at[longer] + sizes[longer]]]
    return sizes


def _spread(at: Ids, sizes: Ids) -> Ids:
    """So many places from each of these on."""
    end = np.cumsum(sizes)
    if not len(end) or end[-1] == len(end):
        return at
    return np.repeat(at - end + sizes, sizes) + np.arange(end[-1])


OBJECTIVE = Masked
