"""From next-token scores to texts: greedy, beam search, sampling. Knows no model.

Every row is decoded for itself: neither its neighbours nor its place changes its text, sampling
included (its dice depend on the seed and on the row's key).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from tianci.errors import UserError
from tianci.settings import setting


class Live(NamedTuple):
    """A text that is being written."""

    row: int
    ids: tuple[int, ...] = ()
    score: float = 0.0  # sum of log-probabilities
    parent: int = 0  # which of the texts of the step before it continues


class Written(NamedTuple):
    """A text that has ended, without its end token, or that had to stop."""

    ids: tuple[int, ...]
    score: float
    ended: bool


# Texts so far -> log-probabilities (texts, V), minus infinity where a token is not allowed.
# Texts come in the order of their rows; `parent` allows to carry a cache along.
Next = Callable[[Sequence[Live]], Tensor]


@dataclass(frozen=True)
class Decoding:
    """How to write."""

    longest: int = setting(64, "most tokens of a text")
    beams: int = setting(1, "texts that are followed side by side (1: greedy)")
    length_penalty: float = setting(1.0, "beams are compared by score / length ** this")
    temperature: float = setting(0.0, "0: the likeliest token; more: drawn, the wilder the higher")
    top_k: int = setting(0, "draw from the k likeliest tokens only (0: from all)")
    top_p: float = setting(1.0, "draw from the likeliest tokens that have this share together")
    min_p: float = setting(0.0, "draw from tokens with at least this share of the likeliest one's")
    repetition: float = setting(1.0, "above 1: what stands in the text already becomes unlikelier")
    no_repeat: int = setting(0, "no run of so many tokens comes twice (0: it may)")
    seed: int = setting(0, "of the dice")

    def __post_init__(self) -> None:
        if not 0 <= self.min_p < 1 or self.repetition <= 0 or self.no_repeat < 0:
            raise UserError(
                "min_p must be at least 0 and below 1, repetition above 0, no_repeat not negative"
            )
        for name in ("longest", "beams"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.temperature < 0 or self.top_k < 0 or not 0 < self.top_p <= 1:
            raise UserError(
                "temperature and top_k must not be negative, and top_p must be above 0, at most 1"
            )
        if self.beams > 1 and self.temperature:
            raise UserError("beams follow the likeliest texts, a temperature draws; give one")


def log_probabilities(logits: Tensor, texts: Sequence[Sequence[int]], how: Decoding) -> Tensor:
    """(texts, V) from logits, after the rules against repetition.

    As in transformers, the rules change logits when one text is followed, and log-probabilities
    (which are then no longer normalised) when beams are.
    """
    scores = logits.log_softmax(1) if how.beams > 1 else logits
    if how.repetition != 1.0 or how.no_repeat:
        scores = scores.clone()
        for row, text in zip(scores, texts, strict=True):
            if how.repetition != 1.0 and text:
                seen = torch.tensor(sorted(set(text)), device=row.device)
                old = row[seen]
                row[seen] = torch.where(old < 0, old * how.repetition, old / how.repetition)
            row[_repeating(text, how.no_repeat)] = -torch.inf
    return scores if how.beams > 1 else scores.log_softmax(1)


def _repeating(text: Sequence[int], size: int) -> list[int]:
    """The tokens that would complete a run of `size` tokens for the second time."""
    if not size or len(text) < size - 1:
        return []
    last = tuple(text[len(text) - size + 1 :])
    starts = range(len(text) - size + 1)
    return [text[n + size - 1] for n in starts if tuple(text[n : n + size - 1]) == last]


def write(next_scores: Next, keys: Sequence[int], end: int, how: Decoding) -> list[Written]:
    """One text per key; `end` is the token that ends a text."""
    if how.beams > 1:
        return _beam(next_scores, len(keys), end, how)
    rngs = [np.random.default_rng([how.seed, key]) for key in keys]
    done: dict[int, Written] = {}
    live = [Live(row) for row in range(len(keys))]
    for _ in range(how.longest):
        if not live:
            break
        scores = next_scores(live)
        if how.temperature:
            dice = torch.tensor([rngs[one.row].random() for one in live], dtype=torch.float64)
            chosen = draw(scores, dice, how)
        else:
            chosen = scores.argmax(1)
        gained = scores.gather(1, chosen[:, None].to(scores.device)).squeeze(1).tolist()
        going: list[Live] = []
        for n, (one, token, gain) in enumerate(zip(live, chosen.tolist(), gained, strict=True)):
            if token == end:
                done[one.row] = Written(one.ids, one.score + gain, True)
            else:
                going.append(Live(one.row, (*one.ids, token), one.score + gain, n))
        live = going
    for one in live:
        done[one.row] = Written(one.ids, one.score, False)
    return [done[row] for row in range(len(keys))]


def draw(scores: Tensor, dice: Tensor, how: Decoding) -> Tensor:
    """(texts,) tokens by inverse transform: likeliest first, cut by top_k and top_p, then where
    each number (0 to 1) of the dice falls."""
    scaled = scores.double() / how.temperature
    ordered, ids = scaled.sort(stable=True, dim=1, descending=True)
    if how.top_k:
        ordered, ids = ordered[:, : how.top_k], ids[:, : how.top_k]
    share = ordered.softmax(1)
    total = share.cumsum(1)
    # the token that reaches top_p is still in
    share = share.masked_fill(total - share >= how.top_p, 0.0)
    share = share.masked_fill(share < how.min_p * share[:, :1], 0.0)
    total = share.cumsum(1)
    place = (total <= dice.to(total.device)[:, None] * total[:, -1:]).sum(1)
    last = (share > 0).sum(1) - 1  # rounding must not lead beyond the last one
    found: Tensor = ids.gather(1, torch.minimum(place, last)[:, None]).squeeze(1)
    return found


def _beam(next_scores: Next, rows: int, end: int, how: Decoding) -> list[Written]:
    """The best text of each row, by its score over its length ** length_penalty.

    As in transformers: a text ends only where the end token is among the best `beams`
    continuations, and a row is done when `beams` texts have ended and none of those still being
    written is better now than the worst of them.
    """

    def worth(text: Written) -> float:
        return text.score / math.pow(len(text.ids) + text.ended, how.length_penalty)

    ended: list[list[Written]] = [[] for _ in range(rows)]
    live = [Live(row) for row in range(rows)]
    for _ in range(how.longest):
        if not live:
            break
        scores = next_scores(live)
        gains, tokens = (x.tolist() for x in scores.topk(min(2 * how.beams, scores.shape[1]), 1))
        going: list[Live] = []
        for row in dict.fromkeys(one.row for one in live):
            mine = [n for n, one in enumerate(live) if one.row == row]
            found = [
                (live[n].score + gain, n, token)
                for n in mine
                for gain, token in zip(gains[n], tokens[n], strict=True)
                if gain > -np.inf
            ]
            found.sort(key=lambda one: -one[0])
            kept: list[Live] = []
            for place, (score, n, token) in enumerate(found):
                if token == end and place < how.beams:
                    ended[row].append(Written(live[n].ids, score, True))
                elif token != end and len(kept) < how.beams:
                    kept.append(Live(row, (*live[n].ids, token), score, n))
            ended[row] = sorted(ended[row], key=worth, reverse=True)[: how.beams]
            hopes = [worth(Written(one.ids, one.score, False)) for one in kept[:1]]
            if len(ended[row]) < how.beams or (hopes and hopes[0] > worth(ended[row][-1])):
                going += kept
        live = going
    for one in live:
        ended[one.row].append(Written(one.ids, one.score, False))
    return [max(texts, key=worth) for texts in ended]
