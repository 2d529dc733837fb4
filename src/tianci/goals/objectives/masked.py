"""Masked language model: hide 15 % of the tokens, guess them from both sides (BERT, 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, cast

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

    tokens: Ids  # (T,)
    chosen: Flags  # (T,) True where the original token is to be guessed


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
        tokens: Ids,
        sequence: Ids,
        special: Flags,
        starts: Flags,
        mask_id: int,
        ordinary: Ids,
        rng: np.random.Generator,
    ) -> Corrupted:
        """Chooses words in each sequence and hides them.

        `sequence` (T,) numbers the sequences, `starts` (T,) is True where a word begins, `ordinary`
        holds the ids a random token is drawn from. A word is hidden as a whole, in one way.
        """
        if not self.whole_words:
            starts = np.ones_like(starts)
        # [CLS] and [SEP] belong to no word; a sequence begins a word even if its first piece is
        # "##x"
        begins = starts | special
        begins[:1] = True
        begins[1:] |= special[:-1] | (sequence[1:] != sequence[:-1])
        first = np.flatnonzero(begins)
        size = np.diff(first, append=len(tokens))
        words = np.flatnonzero(~special[first])
        words = words[self._pick(size[words], sequence[first[words]], rng)]

        # from here on only what is hidden counts, a seventh of the tokens
        first, size = first[words], size[words]
        end = np.cumsum(size)
        places = np.repeat(first - end + size, size) + np.arange(int(size.sum()))
        dice = np.repeat(rng.random(len(words)), size)
        hidden, chosen = tokens.copy(), np.zeros(len(tokens), bool)
        chosen[places] = True
        hidden[places[dice < self.mask]] = mask_id
        swap = places[(dice >= self.mask) & (dice < self.mask + self.random)]
        hidden[swap] = ordinary[rng.integers(len(ordinary), size=len(swap))]
        return Corrupted(hidden, chosen)

    def _pick(self, size: Ids, owner: Ids, rng: np.random.Generator) -> Ids:
        """Which words to hide: in random order until the sequence has enough tokens.

        The word at the border is taken with the probability that makes the expected number of
        tokens exactly rate x length. Words of one owner stand together.
        """
        if not len(size):
            return size
        keys = rng.random(len(size))
        if self.span:  # neighbours get one key: they stand together in the random order
            begins = rng.random(len(size)) < 1 / self.span
            begins[0] = True
            keys = keys[np.flatnonzero(begins)][np.cumsum(begins) - 1]
        begin, which = _runs(owner)
        wanted = self.rate * np.add.reduceat(size, begin)
        # who is far in front is picked, who is far behind is never reached: only the middle is
        # sorted, unless a sequence has too much in front or too little before the end
        sure, middle = keys < 0.75 * self.rate, keys < 1.4 * self.rate
        taken, reached = (np.add.reduceat(size * some, begin) for some in (sure, middle))
        known, enough = taken <= wanted, reached >= wanted
        if not known.all():
            sure &= known[which]
            taken[~known] = 0
        if not enough.all():
            middle |= ~enough[which]
        order = np.flatnonzero(middle & ~sure)
        # stable: neighbours in a span stay together; and what is nearly in order is sorted fast
        order = order[np.argsort(which[order] + keys[order], kind="stable")]
        sizes, owners = size[order], which[order]
        before = np.cumsum(sizes) - sizes
        # counted anew in each sequence
        first = np.searchsorted(owners, np.arange(len(begin)))
        before -= np.append(before, 0)[first][owners] - taken[owners]
        chance = (wanted[owners] - before) / sizes
        picked: Ids = np.concatenate([np.flatnonzero(sure), order[rng.random(len(order)) < chance]])
        return picked

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


def _runs(values: Ids) -> tuple[Ids, Ids]:
    """Where runs of equal values begin, and which run each value belongs to."""
    new = np.r_[True, values[1:] != values[:-1]]
    return np.flatnonzero(new), np.cumsum(new) - 1


OBJECTIVE = Masked
