"""What a corpus looks like in numbers, and what a model that knows very little would lose on it.

Both entropies are cross-entropies in nats per token of the held-out sentences, under models learned
from the train split (Witten-Bell smoothing), so they do not fall to 0 on small corpora:

    unigram   p(w)     = (c(w) + T / V) / (N + T)
    bigram    p(w | h) = (c(h, w) + T(h) p(w)) / (c(h) + T(h))

c counts tokens, N is their number, V the size of the vocabulary, T the number of different tokens
seen, T(h) of those seen after h. Before the first token of a sentence stands a mark of its own,
which is never predicted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tianci.data.corpus import Corpus, Split

MOST_LEARNED = 10_000_000  # tokens of train the two models are learned from
MOST_MEASURED = 1_000_000  # held-out tokens they are measured on
FEWEST_MEASURED = (
    500  # with fewer held-out tokens, every tenth sentence of train is held out instead
)
DIGITS = 9

Array = npt.NDArray[Any]


def entropies(corpus: Corpus) -> tuple[float, float]:
    """Unigram and bigram cross-entropy of held-out text, in nats per token."""
    vocabulary = int(corpus.info["vocabulary"])
    train, held = corpus.split("train"), corpus.split("held")
    if not train.tokens and not held.tokens:
        return 0.0, 0.0
    learn = list(_sample(train, MOST_LEARNED, vocabulary))
    measure = list(_sample(held, MOST_MEASURED, vocabulary))
    if sum(map(len, measure)) < FEWEST_MEASURED or not learn:
        learn, measure = _every_tenth(learn or measure)
    unigram, bigram = cross_entropies(learn, measure, vocabulary)
    # the last digits of a logarithm depend on the processor, and a store must not
    return round(unigram, DIGITS), round(bigram, DIGITS)


def cross_entropies(
    learn: list[Array], measure: list[Array], vocabulary: int
) -> tuple[float, float]:
    """The two entropies; in each row of tokens, `vocabulary` marks where a sentence starts."""
    model = Bigrams(vocabulary)
    counts = np.zeros(vocabulary + 1, np.int64)
    for row in learn:
        counts += np.bincount(row, minlength=vocabulary + 1)
        model.add(row)
    model.finish()
    counts[vocabulary] = 0
    seen, total = int((counts > 0).sum()), int(counts.sum())
    unigram = (counts[:vocabulary] + max(seen, 1) / vocabulary) / (total + max(seen, 1))
    lost = np.zeros(2)
    tokens = 0
    for row in measure:
        before, after = row[:-1].astype(np.int64), row[1:].astype(np.int64)
        real = after != vocabulary
        before, after = before[real], after[real]
        p = unigram[after]
        lost += (-np.log(p).sum(), -np.log(model.probability(before, after, p)).sum())
        tokens += len(after)
    one, two = (lost / max(tokens, 1)).tolist()
    return one, two


class Bigrams:
    """Counts of pairs, sorted by pair; 4 bytes a pair while the vocabulary has two-byte ids."""

    def __init__(self, vocabulary: int):
        self.base = vocabulary + 1
        self._dtype = np.dtype(np.uint32 if self.base**2 <= 1 << 32 else np.uint64)
        self._rows: list[Array] = []

    def add(self, row: Array) -> None:
        """Counts the neighbours in a row of tokens."""
        pairs = row[:-1].astype(self._dtype) * self._dtype.type(self.base) + row[1:].astype(
            self._dtype
        )
        self._rows.append(pairs[row[1:] != self.base - 1])

    def finish(self) -> None:
        """Sorts all pairs and counts the equal ones."""
        pairs = np.concatenate([*self._rows, np.empty(0, self._dtype)])
        self._rows = []
        pairs.sort()
        first = np.flatnonzero(np.concatenate([[True], pairs[1:] != pairs[:-1]])[: len(pairs)])
        self.pairs = pairs[first]
        self.counts = np.diff(first, append=len(pairs))
        left = (self.pairs // self._dtype.type(self.base)).astype(np.int64)
        self.types = np.bincount(left, minlength=self.base)
        self.totals = np.bincount(left, self.counts, self.base)

    def probability(self, before: Array, after: Array, base: Array) -> Array:
        """p(after | before), with `base` where the pair is new."""
        wanted = (before * self.base + after).astype(self._dtype)
        places = np.minimum(np.searchsorted(self.pairs, wanted), max(len(self.pairs) - 1, 0))
        known = self.pairs[places] == wanted if len(self.pairs) else np.zeros(len(wanted), bool)
        counts = (
            np.where(known, self.counts[places], 0) if len(self.pairs) else np.zeros(len(wanted))
        )
        types, totals = self.types[before], self.totals[before]
        mixed = (counts + types * base) / np.maximum(totals + types, 1)
        return np.where(totals > 0, mixed, base)  # after a token never seen, only frequencies help


def _sample(split: Split, most: int, mark: int) -> Iterator[Array]:
    """The beginning of each shard, as much as the limit allows, with marks between sentences."""
    share = min(1.0, most / max(split.tokens, 1))
    for shard in split.shards:
        tokens = shard.tokens[: math.ceil(share * shard.token_count)]
        tokens = tokens.astype(np.uint16 if mark < 1 << 16 else np.uint32)
        starts = shard.sentences[: np.searchsorted(shard.sentences, len(tokens))]
        if len(tokens):
            yield np.append(np.insert(tokens, starts, mark), tokens.dtype.type(mark))
        shard.let_go()  # mapped files count as memory of this process, and there may be many


def _every_tenth(rows: list[Array]) -> tuple[list[Array], list[Array]]:
    """Nine sentences of ten to learn from, and the tenth to measure on."""
    row = np.concatenate(rows)
    mark = row[0]
    number = np.cumsum(row == mark) - 1
    tenth = number % 10 == 9 if number[-1] >= 10 else number == 0
    return [np.append(row[~tenth], mark)], [np.append(row[tenth], mark)]


def bars(counts: list[int], width: int = 40) -> list[str]:
    """A histogram with bins 1, 2-3, 4-7, ... as lines of text."""
    used = [at for at, count in enumerate(counts) if count]
    if not used:
        return []
    most = max(counts)
    lines = []
    for at in range(used[0], used[-1] + 1):
        label = f"{1 << at:,}-{(2 << at) - 1:,}" if at else "1"
        share = counts[at] / sum(counts)
        bar = "█" * round(width * counts[at] / most) or ("▏" if counts[at] else "")
        lines.append(f"{label:>17}  {bar:<{width}} {counts[at]:>12,}  {share:6.1%}")
    return lines


def add_histograms(one: list[int], other: list[int]) -> list[int]:
    """Bin by bin."""
    return [a + b for a, b in zip(one, other, strict=True)]
