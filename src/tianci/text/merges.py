"""Byte-pair merges: the most frequent pair of neighbours becomes a piece, until there are enough.

The library's own trainer numbers the `##` pieces in the order of a hash table, so that ties fall
differently in every process. Here a tie goes to the pair whose parts came first, and the result is
always the same.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping

SHIFT = 24  # a pair of ids in one integer: cheaper to hash than a tuple
MASK = (1 << SHIFT) - 1

Spell = Callable[[str], list[int | None]]
Join = Callable[[str, str], str | None]


def merge_pairs(
    words: Mapping[str, int], tokens: list[str], spell: Spell, join: Join
) -> Iterator[tuple[int, str, str, str]]:
    """The merges, best first: (count, left, right, piece).

    `spell` gives a word as ids of `tokens`, None where a character is not in the alphabet: no pair
    crosses it. `join` gives the piece made of two, or None where they must not be joined.
    """
    tokens = list(tokens)
    known = {token: id for id, token in enumerate(tokens)}
    sequences, counts = _spelled(words, spell)
    pairs: dict[int, int] = {}
    where: dict[int, list[int]] = {}
    for index, (sequence, count) in enumerate(zip(sequences, counts, strict=True)):
        left = sequence[0]
        for right in sequence[1:]:
            pair = left << SHIFT | right
            if pair in pairs:
                pairs[pair] += count
                places = where[pair]
                if places[-1] != index:
                    places.append(index)
            else:
                pairs[pair] = count
                where[pair] = [index]
            left = right
    heap = [(-count, pair) for pair, count in pairs.items()]
    heapq.heapify(heap)
    while heap:
        count, pair = heapq.heappop(heap)
        now = pairs[pair]
        if now != -count:  # out of date: counts only fall, so it may still come later
            if now > 0:
                heapq.heappush(heap, (-now, pair))
            continue
        left, right = pair >> SHIFT, pair & MASK
        piece = join(tokens[left], tokens[right])
        if piece is None:
            continue
        yield now, tokens[left], tokens[right], piece
        new = known.get(piece)
        if new is None:
            new = known[piece] = len(tokens)
            tokens.append(piece)
        changes = _merge(left, right, new, sequences, counts, where)
        for changed, change in changes.items():
            total = pairs.get(changed, 0) + change
            pairs[changed] = total
            if change > 0:
                heapq.heappush(heap, (-total, changed))


def _spelled(words: Mapping[str, int], spell: Spell) -> tuple[list[list[int]], list[int]]:
    """Runs of two and more known symbols, with the count of their word."""
    sequences: list[list[int]] = []
    counts: list[int] = []
    for word, count in words.items():
        run: list[int] = []
        for id in [*spell(word), None]:
            if id is not None:
                run.append(id)
                continue
            if len(run) > 1:
                sequences.append(run)
                counts.append(count)
            run = []
    return sequences, counts


def _merge(
    left: int,
    right: int,
    new: int,
    sequences: list[list[int]],
    counts: list[int],
    where: dict[int, list[int]],
) -> dict[int, int]:
    """Join the pair wherever it stands; how the counts of all pairs change."""
    changes: dict[int, int] = {left << SHIFT | right: 0}
    for index in where.pop(left << SHIFT | right):
        sequence = sequences[index]
        count = counts[index]
        at = -1
        while True:
            try:
                at = sequence.index(left, at + 1, len(sequence) - 1)
            except ValueError:
                break
            if sequence[at + 1] != right:
                continue
            changes[left << SHIFT | right] -= count
            if at:
                before = sequence[at - 1]
                old = before << SHIFT | left
                changes[old] = changes.get(old, 0) - count
                made = before << SHIFT | new
                changes[made] = changes.get(made, 0) + count
                places = where.setdefault(made, [])
                if not places or places[-1] != index:
                    places.append(index)
            if at + 2 < len(sequence):
                after = sequence[at + 2]
                old = right << SHIFT | after
                changes[old] = changes.get(old, 0) - count
                made = new << SHIFT | after
                changes[made] = changes.get(made, 0) + count
                places = where.setdefault(made, [])
                if not places or places[-1] != index:
                    places.append(index)
            sequence[at : at + 2] = [new]
    return changes
