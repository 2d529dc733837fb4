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
        if min(self.mask, self.random) < 0 or self.mask + self.random > 1:
            raise UserError(
                f"masked.mask + masked.random is {self.mask + self.random:g}, but may be at most 1"
            )
        if self.span and self.span < 1:
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
        """Chooses words, each with the probability `rate`, and hides them.

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

        # who is hit by its first token is chosen: from here on only these count, a seventh of all
        at = _every(len(tokens), self.rate, rng)
        at = at[rows[at] & ~special[at]]
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


def _every(count: int, rate: float, rng: np.random.Generator) -> Ids:
    """Of so many things each with the probability `rate`, in order.

    Drawn is how many are passed over from one to the next: a seventh of the dice.
    """
    if not count:
        return np.zeros(0, np.int64)
    expected = count * rate
    draws = int(expected + 5 * math.sqrt(expected) + 10)  # enough but once in a million times
    scale = -1 / math.log1p(-rate)
    found: list[Ids] = []
    last = -1
    while last < count:
        passed = (rng.standard_exponential(draws) * scale).astype(np.int64)
        passed += 1
        passed[0] += last
        found.append(np.cumsum(passed, out=passed))
        last = int(passed[-1])
    chosen: Ids = found[0] if len(found) == 1 else np.concatenate(found)
    return chosen[: np.searchsorted(chosen, count)]


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
