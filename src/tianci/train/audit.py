"""Are the examples what the objective promises? Measured on what training really draws.

Everything is counted on finished batches and compared with the text in the store, so that a fault
anywhere between the store and the model shows. Shapes: T tokens of a batch, N its words, B its
sequences.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tianci.batch import Batch
from tianci.goals.base import Joint
from tianci.goals.objectives.masked import Masked
from tianci.goals.objectives.next_sentence import NextSentence
from tianci.goals.objectives.segments import Pairing
from tianci.goals.objectives.sentence_order import SentenceOrder
from tianci.train.examples import Examples, Flags, Ids
from tianci.train.pool import Pool

LABELS: dict[type[Pairing], tuple[str, str]] = {
    NextSentence: ("next", "random"),
    SentenceOrder: ("in order", "swapped"),
}
CERTAINTY = 3.89  # standard deviations: a sound rate is called off once in 10,000 times
SHOWN = 10


class Rate(NamedTuple):
    """A measured share (or mean), where the true one must lie, and what it should be."""

    value: float
    low: float
    high: float
    expected: float | None = None  # None: nothing is promised, only reported

    @property
    def ok(self) -> bool:
        if self.expected is None:
            return True
        if self.expected in (0.0, 1.0):  # "never" and "always" have no tolerance
            return self.value == self.expected
        return self.low <= self.expected <= self.high


class Sample(NamedTuple):
    """One example to look at."""

    original: list[str]
    seen: list[str]
    marks: list[str]  # "" or, where the token is to be guessed: mask, random, kept
    segments: list[int]
    label: str


@dataclass
class Report:
    """What an audit found."""

    rates: dict[str, Rate]
    tokens: int
    sequences: int
    samples: list[Sample]

    @property
    def off(self) -> list[str]:
        """The names of the rates that are not what they should be."""
        return [name for name, rate in self.rates.items() if not rate.ok]


def wilson(hits: float, count: float, deviations: float = CERTAINTY) -> tuple[float, float]:
    """The interval of true shares under which so many hits are no surprise (Wilson's score)."""
    if count <= 0:
        return 0.0, 1.0
    share, z = hits / count, deviations**2 / count
    middle = (share + z / 2) / (1 + z)
    half = math.sqrt(share * (1 - share) * z + z * z / 4) / (1 + z)
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


@dataclass
class Count:
    """Hits among cases; cases of unequal weight count as fewer."""

    hits: float = 0.0
    cases: float = 0.0
    squares: float = 0.0
    expected: float = 0.0  # summed over the cases

    def add(self, hits: float, cases: float, squares: float | None = None) -> None:
        self.hits += float(hits)
        self.cases += float(cases)
        self.squares += float(cases if squares is None else squares)

    def rate(self, expected: float | None) -> Rate:
        share = self.hits / self.cases
        independent = self.cases**2 / self.squares
        return Rate(share, *wilson(share * independent, independent), expected)


def audit(examples: Examples, tokens: int = 1_000_000, expected: Joint | None = None) -> Report:
    """Draws examples as training does, up to so many tokens or one epoch, and measures them.

    `expected` says what is promised: the goal that makes the examples, unless told otherwise.
    """
    if examples.recipe.laying is not None:
        from tianci.train.laid_audit import LaidAudit  # builds on this module

        return LaidAudit(examples, examples.recipe.laying).run(tokens)
    return _Audit(examples, expected or examples.recipe.goal).run(tokens)


@dataclass
class _Drawn:
    """One batch with its masks taken back, beside the text it was made from."""

    original: Ids  # (T,)
    seen: Ids  # (T,)
    chosen: Flags  # (T,)
    segments: Ids  # (T,)
    special: Flags  # (T,) by the template or by its id
    lengths: Ids  # (B,)
    spans: Ids  # (B, 4)
    labels: Ids  # (B,)


@dataclass
class _Audit:
    examples: Examples
    expected: Joint
    counts: dict[str, Count] = field(default_factory=dict)
    lengths: list[int] = field(default_factory=list)
    firsts: dict[int, int] = field(default_factory=dict)  # document -> its first token

    def __post_init__(self) -> None:
        masked: Masked | None = self.expected.find(Masked)
        self.tokenizer = self.examples.tokenizer
        self.whole_words = masked is not None and masked.whole_words
        self.span = 0.0 if masked is None else masked.span
        self.ordinary = np.ones(len(self.tokenizer), bool)  # (V,) what a random token may be
        self.ordinary[list(self.tokenizer.special_ids)] = False

    def run(self, tokens: int) -> Report:
        samples: list[Sample] = []
        for pool, numbers in self.examples.once(tokens):
            assert isinstance(pool, Pool)
            batch = pool.batch(numbers)
            drawn = self._take_back(batch, pool, pool.sort(numbers))
            self._text(drawn)
            if self.examples.recipe.masked is not None:
                self._masks(drawn)
            if self.examples.recipe.paired is not None:
                self._pairs(drawn)
            self.lengths += drawn.lengths.tolist()
            samples = samples or self._samples(drawn)
        return Report(self._rates(), sum(self.lengths), len(self.lengths), samples)

    def _count(self, name: str) -> Count:
        return self.counts.setdefault(name, Count())

    def _take_back(self, batch: Batch, pool: Pool, numbers: Ids) -> _Drawn:
        seen: Ids = batch.tokens.numpy()
        original, chosen = seen.copy(), np.zeros(len(seen), bool)
        places = batch.targets["masked_at"].numpy()
        original[places] = batch.targets["masked_is"].numpy()
        chosen[places] = True
        lengths = np.array(batch.layout.lengths, np.int64)
        spans = pool.spans[numbers]
        begins = np.cumsum(lengths) - lengths
        special = self.examples.is_fixed(original)
        first = begins + 1 + spans[:, 1] - spans[:, 0]  # the [SEP] after the first segment
        for place in (begins, first, begins + lengths - 1):
            special[np.clip(place, 0, len(seen) - 1)] = True
        assert batch.segments is not None
        labels = batch.targets["label"].numpy()
        segments = batch.segments.numpy()
        return _Drawn(original, seen, chosen, segments, special, lengths, spans, labels)

    def _text(self, drawn: _Drawn) -> None:
        """Whether the tokens are those of the corpus, with the special tokens in their places."""
        examples, paired = self.examples, self.examples.recipe.paired is not None
        cls, sep = np.array([examples.cls]), np.array([examples.sep])
        at = 0
        for (a, a_end, b, b_end), length in zip(
            drawn.spans.tolist(), drawn.lengths.tolist(), strict=True
        ):
            first, second = examples.store.read(a, a_end), examples.store.read(b, b_end)
            parts = [cls, first, sep, second, sep] if paired else [cls, first, sep]
            right = np.concatenate(parts)
            found = drawn.original[at : at + length]
            same = int((right == found).sum()) if len(right) == length else 0
            self._count("text").add(same, length)
            segments = drawn.segments[at : at + length]
            wanted = (np.arange(length) > a_end - a + 1).astype(np.int64)
            self._count("segments").add((segments == wanted).sum(), length)
            at += length
            inside = self._document(a) == self._document(a_end - 1)
            if paired:
                inside &= self._document(b) == self._document(b_end - 1)
            self._count("inside_document").add(inside, 1)
            self._count("shorter").add(length < examples.recipe.length, 1)
        if self.tokenizer.unknown is not None:
            ids = drawn.original[~drawn.special]
            self._count("unknown").add((ids == self.tokenizer.unknown).sum(), len(ids))

    def _masks(self, drawn: _Drawn) -> None:
        ordinary = ~drawn.special
        word = np.cumsum(self._starts(drawn)) - 1
        count = int(word[-1]) + 1
        size = np.bincount(word, minlength=count)
        picked = np.bincount(word, drawn.chosen & ordinary, minlength=count)
        free = np.bincount(word, ordinary, minlength=count) > 0

        tokens = int(ordinary.sum())
        # words of a span are chosen together; the sizes of these rows vary by about their mean
        together = max(1.0, self.span)
        self._count("masked.chosen").add(
            (drawn.chosen & ordinary).sum(), tokens, (size[free] ** 2).sum() * together
        )
        self._count("masked.special_chosen").add(
            (drawn.chosen & drawn.special).sum(), drawn.special.sum()
        )
        changed = drawn.seen != drawn.original
        self._count("masked.changed_unchosen").add(
            (changed & ~drawn.chosen).sum(), (~drawn.chosen).sum()
        )
        several = free & (size > 1)
        self._count("several_tokens").add(several.sum(), free.sum())

        # how each word was treated: by its chosen tokens
        masks = np.bincount(word, drawn.chosen & (drawn.seen == self.examples.mask), count)
        moved = np.bincount(word, drawn.chosen & changed, count)
        touched = free & (picked > 0)
        if not touched.any():
            return
        masked = touched & (masks == picked)
        same = touched & (moved == 0)
        mixed = touched & (masks > 0) & (masks < picked)
        cases = int(touched.sum())
        self._count("masked.mask").add(masked.sum(), cases)
        self._count("masked.unchanged").add(same.sum(), cases)
        self._count("masked.random").add((touched & ~masked & ~same & ~mixed).sum(), cases)
        if self.whole_words:
            self._count("masked.half_words").add(
                (touched & several & (picked < size)).sum(), (touched & several).sum()
            )
            self._count("masked.mixed_words").add(mixed.sum(), cases)
        # a random token may happen to be the right one: the word then looks unchanged
        allowed = self.ordinary
        chance = np.where(allowed[drawn.original] | ~drawn.chosen, 0.0, -np.inf)
        chance[drawn.chosen] -= math.log(max(1, int(allowed.sum())))
        by_luck = np.exp(np.bincount(word, chance, count))[touched]
        self._count("masked.random").expected += float(by_luck.sum())
        swapped = drawn.chosen & changed & (drawn.seen != self.examples.mask)
        self._count("masked.random_special").add(
            (~allowed[drawn.seen[swapped]]).sum(), swapped.sum()
        )

    def _starts(self, drawn: _Drawn) -> Flags:
        """(T,) where words begin; special tokens stand alone."""
        special = drawn.special
        starts = special.copy()
        starts[1:] |= special[:-1]
        starts[np.cumsum(drawn.lengths) - drawn.lengths] = True
        if not self.whole_words:
            return np.ones_like(starts)
        inside = self.examples.words.starts(drawn.original)
        at = 0
        for span, length in zip(drawn.spans.tolist(), drawn.lengths.tolist(), strict=True):
            for begin, a, b in ((at + 1, *span[:2]), (at + 2 + span[1] - span[0], *span[2:])):
                known = self.examples.store.word_starts(a, b) if b > a else None
                if known is not None:
                    inside[begin : begin + len(known)] &= known
            at += length
        return starts | inside

    def _pairs(self, drawn: _Drawn) -> None:
        """Whether the labels tell the truth about where the segments stand in the corpus."""
        paired = self.examples.recipe.paired
        assert paired is not None
        a, a_end, b, b_end = drawn.spans.T
        one = np.array([self._document(x) for x in a.tolist()])
        other = np.array([self._document(x) for x in b.tolist()])
        together = one == other
        # what was cut away to make both fit may leave a gap
        full = (a_end - a) + (b_end - b) >= self.examples.room
        follows = together & np.where(full, b >= a_end, b == a_end)
        leads = together & np.where(full, a >= b_end, a == b_end)
        odd = drawn.labels == 1  # random, or swapped
        self._count(f"{paired.name}.{self._labels()[1]}").add(odd.sum(), len(odd))
        if isinstance(paired, NextSentence):
            self._count("next_sentence.elsewhere").add((~together & odd).sum(), odd.sum())
            self._count("next_sentence.follows").add((follows & ~odd).sum(), (~odd).sum())
        if isinstance(paired, SentenceOrder):
            self._count("sentence_order.follows").add((follows & ~odd).sum(), (~odd).sum())
            self._count("sentence_order.leads").add((leads & odd).sum(), odd.sum())

    def _document(self, token: int) -> int:
        """The document a numbered token belongs to."""
        return bisect_right(range(self.examples.store.count()), token, key=self._first_token) - 1

    def _first_token(self, document: int) -> int:
        if document not in self.firsts:
            self.firsts[document] = int(self.examples.store.sentences(document)[0])
        return self.firsts[document]

    def _rates(self) -> dict[str, Rate]:
        """All rows, with what was expected of each."""
        masked, paired = self.expected.find(Masked), self.expected.find(Pairing)
        promised: dict[str, float | None] = {"text": 1.0, "segments": 1.0, "inside_document": 1.0}
        if masked is not None:
            luck = self._count("masked.random")
            lucky = masked.random * luck.expected / max(1.0, luck.cases)
            promised |= {
                "masked.chosen": masked.rate,
                "masked.mask": masked.mask,
                "masked.random": masked.random - lucky,
                "masked.unchanged": 1 - masked.mask - masked.random + lucky,
                "masked.special_chosen": 0.0,
                "masked.changed_unchosen": 0.0,
                "masked.random_special": 0.0,
            }
            if masked.whole_words:
                promised |= {"masked.half_words": 0.0, "masked.mixed_words": 0.0}
        if isinstance(paired, NextSentence):
            promised["next_sentence.random"] = paired.random
            promised |= {"next_sentence.elsewhere": 1.0, "next_sentence.follows": 1.0}
        if isinstance(paired, SentenceOrder):
            promised["sentence_order.swapped"] = paired.swapped
            promised |= {"sentence_order.follows": 1.0, "sentence_order.leads": 1.0}
        rates = {
            name: self.counts[name].rate(_plain(value))
            for name, value in promised.items()
            if name in self.counts and self.counts[name].cases
        }
        for name in ("several_tokens", "unknown", "shorter"):
            if name in self.counts and self.counts[name].cases:
                rates[name] = self.counts[name].rate(None)
        if self.lengths:
            rates["mean_length"] = mean_rate(self.lengths)
        return rates

    def _samples(self, drawn: _Drawn) -> list[Sample]:
        """Some examples of the batch, from the longest to the shortest."""
        begins = np.cumsum(drawn.lengths) - drawn.lengths
        names = self._labels()
        found: list[Sample] = []
        shown = np.linspace(0, len(begins) - 1, min(SHOWN, len(begins))).astype(int)
        for number in shown.tolist():
            part = slice(int(begins[number]), int(begins[number] + drawn.lengths[number]))
            original, seen = drawn.original[part], drawn.seen[part]
            hidden = np.where(seen == original, "kept", "random")
            hidden = np.where(seen == self.examples.mask, "mask", hidden)
            found.append(
                Sample(
                    [self.tokenizer.token(i) for i in original.tolist()],
                    [self.tokenizer.token(i) for i in seen.tolist()],
                    np.where(drawn.chosen[part], hidden, "").tolist(),
                    drawn.segments[part].tolist(),
                    names[int(drawn.labels[number])],
                )
            )
        return found

    def _labels(self) -> tuple[str, str]:
        """What the labels 0 and 1 mean."""
        paired = self.examples.recipe.paired
        found = (names for kind, names in LABELS.items() if isinstance(paired, kind))
        return next(found, ("", ""))


def mean_rate(values: Sequence[float], expected: float | None = None) -> Rate:
    """A mean and the interval in which the true one must lie."""
    mean = float(np.mean(values))
    error = CERTAINTY * float(np.std(values)) / math.sqrt(len(values))
    return Rate(mean, mean - error, mean + error, expected)


def _plain(value: float | None) -> float | None:
    """0.09999999999999998 as 0.1."""
    return None if value is None else round(value, 12)
