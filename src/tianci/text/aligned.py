"""Words and the tokens they became: where each word begins, and windows over long sentences."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from tianci.text.tokenizer import Encoded, Tokenizer

Spans = Sequence[tuple[int, int]]  # where words are in a text, from left to right
NONE = -1  # the place of a word that became no token


class Sentence(NamedTuple):
    """A text and where its words are."""

    text: str
    spans: Spans


class Aligned(NamedTuple):
    """The tokens of a sentence, and at which of them each word begins (or NONE)."""

    ids: list[int]
    first: list[int]


class Window(NamedTuple):
    """Tokens start to end, and those words low to high (of the places given) that it decides."""

    start: int
    end: int
    low: int
    high: int


def align(sentences: Sequence[Sentence], tokenizer: Tokenizer) -> list[Aligned]:
    """All sentences as tokens, without special ones; no token is shared by two words."""
    encoded = tokenizer.encode([sentence.text for sentence in sentences], special=False)
    touched = [_touched(*pair) for pair in zip(sentences, encoded, strict=True)]
    glued = [_glued(pairs) for pairs in touched]
    # such words are encoded one by one: a label per character needs a token per character
    names = sorted(
        {
            sentence.text[slice(*sentence.spans[word])]
            for sentence, words in zip(sentences, glued, strict=True)
            for word in words
        }
    )
    alone = dict(zip(names, tokenizer.ids(names, special=False), strict=True)) if names else {}
    return [
        _aligned(sentence, one.ids, pairs, words, alone)
        for sentence, one, pairs, words in zip(sentences, encoded, touched, glued, strict=True)
    ]


def _touched(sentence: Sentence, encoded: Encoded) -> list[tuple[int, int]]:
    """For each token the first and the last word it has a character of, or NONE."""
    owner = [NONE] * len(sentence.text)
    for word, (start, end) in enumerate(sentence.spans):
        owner[start:end] = [word] * (end - start)
    found = []
    for start, end in encoded.offsets:
        words = owner[start:end]
        if words and NONE in (words[0], words[-1]):  # a blank around the piece
            words = [word for word in words if word != NONE]
        found.append((words[0], words[-1]) if words else (NONE, NONE))
    return found


def _glued(touched: Sequence[tuple[int, int]]) -> set[int]:
    """The words that share a token with another."""
    return {w for first, last in touched if last > first for w in range(first, last + 1)}


def _aligned(
    sentence: Sentence,
    ids: list[int],
    touched: Sequence[tuple[int, int]],
    glued: set[int],
    alone: dict[str, list[int]],
) -> Aligned:
    result = Aligned([], [NONE] * len(sentence.spans))
    done: set[int] = set()
    for id, (low, high) in zip(ids, touched, strict=True):
        if low not in glued:
            if low != NONE and result.first[low] == NONE:
                result.first[low] = len(result.ids)
            result.ids.append(id)
            continue
        for word in range(low, high + 1):
            pieces = alone[sentence.text[slice(*sentence.spans[word])]]
            if word not in done and pieces:
                result.first[word] = len(result.ids)
                result.ids.extend(pieces)
            done.add(word)
    return result


def windows(places: Sequence[int], length: int, room: int) -> list[Window]:
    """Overlapping windows of at most `room` of `length` tokens.

    A word is decided by the window in which its place is furthest from the edge. Each window
    overlaps the next by half, so that a word sees a quarter of a window on either side.
    """
    last = max(0, length - room)
    starts = [*range(0, last, max(1, room // 2)), last]
    ends = [min(length, start + room) for start in starts]
    # where two windows overlap, the one on the left decides up to the middle
    middles = [(end + start + 1) // 2 for end, start in zip(ends, starts[1:], strict=False)]
    cuts = [0, *(bisect_left(places, middle) for middle in middles), len(places)]
    return [
        Window(start, end, *words)
        for start, end, words in zip(starts, ends, pairwise(cuts), strict=True)
    ]
