"""Span corruption: spans become sentinels, the target says what they were (T5, 2019)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from tianci.batch import Batch
from tianci.errors import UserError
from tianci.goals.base import Heads, Loss
from tianci.goals.laying import Ids, Laid, Laying, Marks, begin_and_end
from tianci.goals.objectives.causal import guessing
from tianci.goals.objectives.segments import Borders, Example
from tianci.models.base import Model, States
from tianci.nn.heads import TiedHead
from tianci.settings import setting
from tianci.text.tokenizer import Tokenizer

SENTINEL = "<extra_id_{}>"


def sentinels_of(tokenizer: Tokenizer) -> tuple[int, ...]:
    """The ids of <extra_id_0>, <extra_id_1>, ... as far as a vocabulary has them."""
    found: list[int] = []
    while (one := tokenizer.id(SENTINEL.format(len(found)))) is not None:
        found.append(one)
    return tuple(found)


def target_loss(model: Model, heads: Heads, states: States, target: Batch) -> Loss:
    """The loss of a decoder's target: begin, tokens, end, each guessed from those before it."""
    at = guessing(target.layout)
    head = cast(TiedHead, heads["generation"])
    return Loss(*head.loss(states.last[at], model.token_table(), target.tokens[at + 1]))


@dataclass(frozen=True)
class Span(Laying):
    """15 % of the tokens in spans of 3; `a b c d e` becomes `a <0> e` and `<0> b c d <1>`."""

    name: ClassVar[str] = "span"
    heads: ClassVar[tuple[str, ...]] = ("generation",)

    rate: float = setting(0.15, "share of the tokens that are hidden")
    length: float = setting(3.0, "mean number of tokens in a span")

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise UserError(f"span.rate is {self.rate}, but must lie between 0 and 1")
        if not 1 <= self.length < math.inf:
            raise UserError(f"span.length is {self.length}, but must be at least 1")

    def marks(self, tokenizer: Tokenizer) -> Marks:
        begin, end = begin_and_end(tokenizer)
        begin = tokenizer.pad if begin is None else begin  # what T5's own decoder begins with
        sentinels = sentinels_of(tokenizer)
        if begin is None or end is None or not sentinels:
            raise UserError(
                f"span needs {SENTINEL.format(0)}, {SENTINEL.format(1)}, ... and a token that ends "
                "a text; learn a vocabulary with tianci vocab --sentinels 100 and prepare again"
            )
        return Marks(begin, end, sentinels)

    def cut(self, sentences: Borders, length: int, rng: np.random.Generator) -> Iterator[Example]:
        first, end = int(sentences[0]), int(sentences[-1])
        for start in range(first, end, length - 1):  # one place is the end token's
            stop = min(start + length - 1, end)
            yield Example((start, stop), opens=start == first, closes=stop == end)

    def lay(self, text: Ids, example: Example, marks: Marks, rng: np.random.Generator) -> Laid:
        hidden = self.hide(len(text), len(marks.sentinels) - 1, rng)
        source: list[Ids] = []
        target: list[Ids] = [np.array([marks.begin])]
        at = number = 0
        for start, stop in hidden:
            mark = np.array([marks.sentinels[number]])
            source += [text[at:start], mark]
            target += [mark, text[start:stop]]
            at, number = stop, number + 1
        source += [text[at:], np.array([marks.end])]
        last = [marks.sentinels[number], marks.end] if number else [marks.end]
        target.append(np.array(last))
        return Laid(np.concatenate(source).astype(np.int64),
                    decoder=np.concatenate(target).astype(np.int64))  # fmt: skip

    def hide(self, size: int, most: int, rng: np.random.Generator) -> list[tuple[int, int]]:
        """The hidden spans of a text, never two without a token between them, as T5 draws them:
        how many tokens and spans is fixed, where they are cut is left to chance."""
        wanted = self.rate * size
        count = int(wanted) + int(rng.random() < wanted - int(wanted))  # the rate is exact
        count = min(count, size - 1)
        if count < 1:
            return []
        spans = min(max(1, round(count / self.length)), most, count, size - count)
        if spans < 1:
            return []
        kept = _parts(size - count, spans, rng)
        gone = _parts(count, spans, rng)
        ends = np.cumsum(np.stack([kept, gone], 1).ravel())
        return [(int(a), int(b)) for a, b in ends.reshape(-1, 2)]

    def count(self, batch: Batch) -> int:
        target = batch.decoder
        return 0 if target is None else target.layout.tokens - len(target.layout)

    def loss(self, model: Model, heads: Heads, states: States, batch: Batch) -> Loss:
        assert batch.decoder is not None
        return target_loss(model, heads, states, batch.decoder)

    # ------------------------------------------------------------ what an audit asks

    def restored(self, laid: Laid, example: Example, marks: Marks) -> Ids | None:
        assert laid.decoder is not None
        known = {sentinel: n for n, sentinel in enumerate(marks.sentinels)}
        if laid.ids[-1] != marks.end or laid.decoder[0] != marks.begin:
            return None
        hidden: dict[int, list[int]] = {}
        last = None
        for token in laid.decoder[1:-1].tolist():
            if token in known:
                if last is not None and known[token] != known[last] + 1:
                    return None
                last, hidden[token] = token, []
            elif last is None:
                return None
            else:
                hidden[last].append(token)
        text: list[int] = []
        for token in laid.ids[:-1].tolist():
            text += hidden.pop(token, [token]) if token in known else [token]
        # the last sentinel says that nothing follows
        return np.array(text, np.int64) if not any(hidden.values()) else None

    def shares(self, laid: Laid, marks: Marks) -> dict[str, tuple[int, int]]:
        assert laid.decoder is not None
        seen = int(np.isin(laid.ids, marks.sentinels).sum())
        hidden = len(laid.decoder) - 2 - seen - (seen > 0)
        whole = len(laid.ids) - 1 - seen + hidden
        return {"span.hidden": (hidden, whole), "span.spans": (seen, max(hidden, seen))}

    def promised(self) -> dict[str, float | None]:
        return {"span.hidden": self.rate, "span.spans": None}


def _parts(total: int, count: int, rng: np.random.Generator) -> Ids:
    """A number of things cut at random into so many parts, none of them empty."""
    cuts = np.sort(rng.choice(total - 1, count - 1, replace=False)) + 1
    parts: Ids = np.diff(np.r_[0, cuts, total])
    return parts


OBJECTIVE = Span
