"""What a linear tagger reaches with the same labels: a word, its neighbours, its looks, and the tag
before (an averaged structured perceptron, Collins 2002).

T words of all sentences, B sentences of a batch, L the longest of them, C tags, F features a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import numpy.typing as npt

from tianci.metrics.entities import is_bio, repair
from tianci.metrics.score import IntArray

Weights = npt.NDArray[np.float32]

ROWS = 1 << 20  # features are hashed into so many rows of weights
REACH = 2  # neighbours on each side
EPOCHS = 5
BATCH = 16


def _shape(word: str) -> str:
    """Bob-17 -> Xx-0."""
    marks = (
        "0" if c.isdigit() else "X" if c.isupper() else "x" if c.isalpha() else c for c in word
    )
    return re.sub(r"(.)\1+", r"\1", "".join(marks))


LOOKS: tuple[Callable[[str], str], ...] = (
    lambda word: word,
    lambda word: word.lower(),
    lambda word: word[:3].lower(),
    lambda word: word[-3:].lower(),
    _shape,
)
# each (look, places from here) is one feature of a word
WINDOWS: tuple[tuple[int, tuple[int, ...]], ...] = (
    *((0, (at,)) for at in range(-REACH, REACH + 1)),
    *((0, pair) for pair in ((-2, -1), (-1, 0), (-1, 1), (0, 1), (1, 2))),
    (0, (-1, 0, 1)),
    *((look, (0,)) for look in (1, 2, 3, 4)),
    *((4, (at,)) for at in (-1, 1)),
)


@dataclass(frozen=True)
class TagBaseline:
    """A fitted tagger: weights of features (ROWS, C) and of each tag after each (C + 1, C)."""

    names: list[str]
    features: Weights
    follows: Weights

    def tags(self, words: Sequence[Sequence[str]]) -> list[list[str]]:
        """A tag for each word of each sentence; valid BIO where the labels mark entities."""
        found, starts = _features(words)
        rows: list[list[str]] = []
        for first in range(0, len(words), BATCH):
            bounds = starts[first : first + BATCH + 1]
            chosen = _decode(self.features, self.follows, found, bounds)
            named = [self.names[one] for one in chosen.tolist()]
            rows += [named[a - bounds[0] : b - bounds[0]] for a, b in _pairs(bounds)]
        return [repair(row) for row in rows] if is_bio(self.names) else rows


def fit_tag_baseline(
    words: Sequence[Sequence[str]], tags: Sequence[Sequence[str]], seed: int = 0
) -> TagBaseline:
    """A tagger learned in five passes over the sentences; its weights are those of all steps,
    averaged."""
    # sentences of one length need no padding beside each other
    order = sorted(range(len(words)), key=lambda at: len(words[at]))
    words, tags = [words[at] for at in order], [tags[at] for at in order]
    names = sorted({tag for sentence in tags for tag in sentence})
    number = {name: at for at, name in enumerate(names)}
    gold = np.array([number[tag] for sentence in tags for tag in sentence], np.int64)
    found, starts = _features(words)
    if len(gold) != len(found):
        raise ValueError(f"{len(found)} words, but {len(gold)} tags")
    weights = np.zeros((ROWS, len(names)), np.float32)
    follows = np.zeros((len(names) + 1, len(names)), np.float32)
    late, late_follows = weights.copy(), follows.copy()  # changes times the step they were made in
    rng = np.random.default_rng(seed)
    step = 1
    for _ in range(EPOCHS):
        for first in rng.permutation(np.arange(0, len(words), BATCH)).tolist():
            bounds = starts[first : first + BATCH + 1]
            right = gold[bounds[0] : bounds[-1]]
            chosen = _decode(weights, follows, found, bounds)
            wrong = np.flatnonzero(chosen != right)
            if len(wrong):
                rows = found[bounds[0] + wrong]
                # An index twice in `rows` counts once, and must: where every sentence of a batch
                # moves the same weight, it overshoots (F1 0.46 instead of 0.78 after 5,000
                # sentences of people_daily_ner).
                for target, size in ((weights, 1), (late, step)):
                    target[rows, right[wrong, None]] += size
                    target[rows, chosen[wrong, None]] -= size
                change = _follow_counts(right, bounds, len(names))
                change = np.sign(change - _follow_counts(chosen, bounds, len(names)))
                follows += change
                late_follows += step * change
            step += 1
    weights -= late / step
    follows -= late_follows / step
    return TagBaseline(names, weights, follows)


def _decode(weights: Weights, follows: Weights, found: IntArray, bounds: IntArray) -> IntArray:
    """The best tags of the words of some sentences (Viterbi), all sentences in step."""
    lengths = np.diff(bounds)
    batch, longest, count = len(lengths), int(lengths.max(initial=0)), weights.shape[1]
    inside = np.arange(longest) < lengths[:, None]
    scores = np.zeros((batch, longest, count), np.float32)
    scores[inside] = weights[found[bounds[0] : bounds[-1]]].sum(1)
    best = np.zeros((longest, batch, count), np.int64)
    if longest:
        scores[:, 0] += follows[count]
    for at in range(1, longest):
        ways = scores[:, at - 1, :, None] + follows[:count]
        best[at] = ways.argmax(1)
        scores[:, at] += ways.max(1)
    chosen = np.zeros((batch, longest), np.int64)
    every = np.arange(batch)
    for at in reversed(range(longest)):
        ahead = best[at + 1][every, chosen[:, at + 1]] if at + 1 < longest else 0
        chosen[:, at] = np.where(lengths == at + 1, scores[:, at].argmax(1), ahead)
    flat: IntArray = chosen[inside]
    return flat


def _follow_counts(tags: IntArray, bounds: IntArray, count: int) -> Weights:
    """How often each tag follows each (or begins a sentence: the last row)."""
    before = np.concatenate([[count], tags[:-1]])
    firsts = bounds[:-1] - bounds[0]
    before[firsts[np.diff(bounds) > 0]] = count
    cells = np.bincount(before * count + tags, minlength=(count + 1) * count)
    return cells.reshape(count + 1, count).astype(np.float32)


def _features(words: Sequence[Sequence[str]]) -> tuple[IntArray, IntArray]:
    """The rows of weights of each word, (T, F), and where sentences begin, with the end."""
    starts = np.concatenate([[0], np.cumsum([len(sentence) for sentence in words])])
    # room between sentences, so that no word sees beyond its own
    padded = [""] * REACH
    for sentence in words:
        padded += [*sentence, *[""] * REACH]
    places = np.arange(starts[-1]) + REACH
    places += np.repeat(np.arange(len(words)), np.diff(starts)) * REACH
    number = {word: at for at, word in enumerate(dict.fromkeys(padded))}
    ids = np.array([number[word] for word in padded], np.int64)
    looks = [np.array([crc32(look(word).encode()) for word in number], np.uint64) for look in LOOKS]
    found = np.empty((len(places), len(WINDOWS)), np.int64)
    for column, (look, window) in enumerate(WINDOWS):
        mixed = np.full(len(places), column + 1, np.uint64)
        for shift in window:
            mixed = (mixed ^ looks[look][ids[places + shift]]) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(32)
        found[:, column] = mixed % np.uint64(ROWS)
    return found, starts


def _pairs(bounds: IntArray) -> list[tuple[int, int]]:
    return list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
