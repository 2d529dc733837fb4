"""A unigram vocabulary: many candidate pieces, thinned to those the text is least likely without.

Kudo 2018, as in SentencePiece: expectation maximisation over all ways to cut every word, then the
pieces whose loss costs least likelihood go, and again. The library's trainer adds floating-point
numbers in the order of a hash table, so its scores differ from run to run; here the order is
fixed, and numpy does the work for all words at once.

Positions: the words stand one after another in one array with a free place after each; an edge is a
candidate piece at a position. Shapes: P positions, E edges, V pieces.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

LONGEST_PIECE = 12
LONGEST_WORD = 48  # longer ones are cut for learning, so that probabilities stay within range
SHRINK = 0.75
ROUNDS = 2  # of expectation maximisation between two cuts
RARE = 0.5  # expected occurrences below which a piece is given up, as in SentencePiece

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(slots=True)
class Edges:
    """Candidate pieces at their places, sorted by how far into the word they end."""

    start: Ints  # (E,)
    end: Ints  # (E,)
    piece: Ints  # (E,)
    depth: Ints  # (E,) end, counted from the start of the word
    count: Floats  # (E,) of the word

    def only(self, keep: npt.NDArray[np.bool_]) -> Edges:
        return Edges(*(getattr(self, name)[keep] for name in self.__slots__))


def learn_unigram(
    words: Mapping[str, int], alphabet: list[str], size: int, least: int
) -> list[tuple[str, float]]:
    """At most `size` pieces with log probabilities, best first, the alphabet among them."""
    text, counts, depth = _flatten(words, alphabet)
    pieces, edges = _candidates(text, counts, depth, alphabet, size, least)
    keep_always = len(alphabet)  # single characters come first in `pieces`
    frequency = np.maximum(np.bincount(edges.piece, edges.count, len(pieces)), RARE)
    score = np.log(frequency / frequency.sum())
    while True:
        for _ in range(ROUNDS):
            frequency = _expected(edges, score, len(text))
            score = _log_probability(np.maximum(frequency, RARE))
        kept = frequency >= RARE
        kept[:keep_always] = True
        loss = np.where(kept, _loss(pieces, frequency, score), -math.inf)
        wanted = max(int(len(pieces) * SHRINK), size)
        best = np.argsort(-loss, kind="stable")[:wanted]
        best = np.sort(best[kept[best]])
        done = len(best) <= size
        pieces, score, edges = _reduce(pieces, score, edges, best)
        if done:
            break
    for _ in range(ROUNDS):
        frequency = _expected(edges, score, len(text))
        score = _log_probability(np.maximum(frequency, RARE))
    # Six digits are more than the counts support, and hide what other processors round differently.
    ranked = sorted(zip(pieces, score.tolist(), strict=True), key=lambda item: (-item[1], item[0]))
    return [(piece, round(value, 6)) for piece, value in ranked]


def _flatten(words: Mapping[str, int], alphabet: list[str]) -> tuple[Ints, Floats, Ints]:
    """Character number, count of its word and place in it, for all words; -1 ends a word."""
    number = {character: index for index, character in enumerate(alphabet)}
    text: list[int] = []
    counts: list[float] = []
    depth: list[int] = []
    for word, count in words.items():
        run = 0
        for character in word:
            index = number.get(character, -1)
            if run == LONGEST_WORD and index >= 0:
                text.append(-1)
                depth.append(run)
                counts.append(count)
                run = 0
            text.append(index)  # a character outside the alphabet ends a word too
            depth.append(run)
            counts.append(count)
            run = run + 1 if index >= 0 else 0
        text.append(-1)
        depth.append(run)
        counts.append(count)
    return np.array(text), np.array(counts, dtype=float), np.array(depth)


def _candidates(
    text: Ints, counts: Floats, depth: Ints, alphabet: list[str], size: int, least: int
) -> tuple[list[str], Edges]:
    """Single characters, then the repeated substrings that cover most text."""
    at = np.flatnonzero(text >= 0)
    group = text[at]
    pieces = list(alphabet)
    found = [(at, group, 1)]
    longer: list[tuple[Floats, list[str], Ints, Ints, int]] = []
    names = list(alphabet)
    for length in range(2, LONGEST_PIECE + 1):
        fits = text[at + length - 1] >= 0 if len(at) else np.zeros(0, dtype=bool)
        # a word that is shorter than `length` has its end among the next places
        at, group = at[fits], group[fits]
        key = group * len(alphabet) + text[at + length - 1]
        values, group = np.unique(key, return_inverse=True)
        weight: Floats = np.bincount(group, counts[at], len(values)).astype(float)
        often = weight >= least
        if not often.any():
            break
        renumber = np.cumsum(often) - 1
        stay = often[group]
        at, group = at[stay], renumber[group[stay]]
        parents, last = np.divmod(values[often], len(alphabet))
        names = [names[p] + alphabet[c] for p, c in zip(parents, last, strict=True)]
        weight = weight[often]
        if longer:  # what only occurs inside the longer piece is no candidate of its own
            longest = np.zeros(len(longer[-1][0]))
            np.maximum.at(longest, parents, weight)
            longer[-1][0][longest >= longer[-1][0]] = 0
        longer.append((weight.copy(), names, at, group, length))
    gain = [weight * length for weight, _, _, _, length in longer]
    if gain:
        flat = np.concatenate(gain)
        order = np.argsort(-flat, kind="stable")[: max(10 * size, 50_000)]
        chosen = np.zeros(len(flat), dtype=bool)
        chosen[order[flat[order] > 0]] = True
        offset = 0
        for (_, names, at, group, length), part in zip(longer, gain, strict=True):
            mine = chosen[offset : offset + len(part)]
            offset += len(part)
            renumber = np.cumsum(mine) - 1 + len(pieces)
            stay = mine[group]
            found.append((at[stay], renumber[group[stay]], length))
            pieces += [name for name, yes in zip(names, mine, strict=True) if yes]
    start = np.concatenate([a for a, _, _ in found])
    piece = np.concatenate([g for _, g, _ in found])
    length_of = np.concatenate([np.full(len(a), n) for a, _, n in found])
    end = start + length_of
    order = np.argsort(depth[start] + length_of, kind="stable")
    edges = Edges(start, end, piece, depth[start] + length_of, counts[start])
    return pieces, Edges(*(getattr(edges, name)[order] for name in Edges.__slots__))


def _expected(edges: Edges, score: Floats, places: int) -> Floats:
    """How often each piece is expected, over all ways to cut every word."""
    # Scaled by a factor per character, so that the probability of a long word does not underflow.
    length = edges.end - edges.start
    value = score[edges.piece]
    scale = -float(np.sum(value * edges.count) / np.sum(length * edges.count))
    weight = np.exp(value + scale * length)
    limits = np.searchsorted(edges.depth, np.arange(1, int(edges.depth[-1]) + 2))
    forward = np.zeros(places + 1)
    backward = np.zeros(places + 1)
    firsts = edges.start[edges.depth == length]  # edges that begin a word
    forward[firsts] = 1.0
    steps = list(pairwise(limits.tolist()))
    for low, high in steps:
        part = slice(low, high)
        np.add.at(forward, edges.end[part], forward[edges.start[part]] * weight[part])
    ends = np.ones(places + 1, dtype=bool)
    ends[edges.start] = False  # every place inside a word starts at least its own character
    backward[ends] = 1.0
    for low, high in reversed(steps):
        part = slice(low, high)
        np.add.at(backward, edges.start[part], weight[part] * backward[edges.end[part]])
    total = backward[edges.start - (edges.depth - length)]  # at the start of the word
    share = forward[edges.start] * weight * backward[edges.end] / total
    return np.bincount(edges.piece, share * edges.count, len(score)).astype(float)


def _log_probability(frequency: Floats) -> Floats:
    """Logarithms under a sparse prior (digamma instead of log), as in SentencePiece."""
    return _digamma(frequency) - float(_digamma(np.array([frequency.sum()]))[0])


def _digamma(x: Floats) -> Floats:
    x = x.copy()
    result = np.zeros_like(x)
    for _ in range(6):  # into the range where the series below is exact enough
        small = x < 6
        result[small] -= 1 / x[small]
        x[small] += 1
    square = 1 / (x * x)
    series = square * (1 / 12 - square * (1 / 120 - square / 252))
    return np.asarray(result + np.log(x) - 0.5 / x - series)


def _loss(pieces: list[str], frequency: Floats, score: Floats) -> Floats:
    """Log likelihood lost when others must stand for a piece; single characters stay."""
    value = dict(zip(pieces, score.tolist(), strict=True))
    loss = np.full(len(pieces), math.inf)
    for index, piece in enumerate(pieces):
        if len(piece) == 1:
            continue
        best: list[float] = [0.0]
        for end in range(1, len(piece) + 1):
            here = -math.inf
            for begin in range(max(0, end - LONGEST_PIECE), end):
                if end - begin < len(piece):
                    found = value.get(piece[begin:end])
                    if found is not None and best[begin] + found > here:
                        here = best[begin] + found
            best.append(here)
        loss[index] = frequency[index] * (score[index] - best[-1])
    return loss


def _reduce(
    pieces: list[str], score: Floats, edges: Edges, best: Ints
) -> tuple[list[str], Floats, Edges]:
    number = np.full(len(pieces), -1)
    number[best] = np.arange(len(best))
    edges = edges.only(number[edges.piece] >= 0)
    edges.piece = number[edges.piece]
    return [pieces[index] for index in best], score[best], edges
