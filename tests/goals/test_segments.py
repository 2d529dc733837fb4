"""Cutting documents: every token once, nothing too long, nothing across a border."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.goals.tiny import Dice
from tianci.goals.objectives.segments import (
    Borders,
    Chunk,
    Targets,
    chunk,
    fit,
    target_length,
    whole,
)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def laid(documents: list[Borders]) -> tuple[Borders, Borders]:
    """Documents end to end: the borders of all their sentences, and where each begins."""
    sizes = [int(borders[-1]) for borders in documents]
    firsts = np.cumsum([0, *sizes[:-1]])
    return np.concatenate([b + at for b, at in zip(documents, firsts, strict=True)]), firsts


# one document, and so many that they are cut side by side
@pytest.mark.parametrize("copies", [1, 40])
@pytest.mark.parametrize(
    ("borders", "expected"),
    [
        ([0, 3, 5, 9], [0, 5]),  # as many whole sentences as fit
        ([0, 12], [0, 5, 10]),  # a long sentence is cut, not dropped
        ([0, 2, 9, 10], [0, 2, 7]),
        ([0, 5, 10], [0, 5]),
        ([0, 1], [0]),
    ],
)
def test_whole(borders: list[int], expected: list[int], copies: int) -> None:
    found = whole(*laid([np.array(borders)] * copies), Targets(5, 0.0, rng()))
    assert found.tolist() == [n * borders[-1] + at for n in range(copies) for at in expected]


@pytest.mark.parametrize("short", [0.0, 0.1, 1.0])
def test_whole_cuts_nothing_too_long_and_nothing_across_documents(short: float) -> None:
    r = rng(1)
    for count in (1, 3, 17, 100):
        sizes = [r.integers(1, 30, int(r.integers(1, 20 if n else 400))) for n in range(count)]
        borders, firsts = laid([np.cumsum([0, *some]) for some in sizes])
        found = whole(borders, firsts, Targets(24, short, r))
        lengths = np.diff(found, append=borders[-1])
        assert lengths.min() >= 1 and lengths.max() <= 24
        assert set(firsts.tolist()) <= set(found.tolist())
        if not short:  # a cut inside a sentence comes only after 24 tokens without a border
            inside = np.flatnonzero(~np.isin(found, borders))
            assert (lengths[inside - 1] == 24).all()


def test_target_length() -> None:
    assert target_length(126, 0.1, Dice(0.1)) == 126  # type: ignore[arg-type]
    assert target_length(126, 0.1, Dice(0.09, 40)) == 40  # type: ignore[arg-type]
    r = rng(2)
    for lengths in (
        np.array([target_length(126, 0.1, r) for _ in range(20000)]),
        Targets(126, 0.1, r).take(20000),
    ):
        assert lengths.min() == 2 and lengths.max() == 126
        share = 0.1 * 124 / 125  # one short one in 125 is as long as the others
        assert abs((lengths < 126).mean() - share) < 4 * math.sqrt(share * (1 - share) / 20000)


@pytest.mark.parametrize(
    ("borders", "first", "dice", "expected"),
    [
        # target 8: the sentence that reaches it belongs to the chunk; split behind the first
        ([0, 4, 7, 11, 20], 0, Dice(1), Chunk(0, 3, 4, 1)),
        ([0, 4, 7, 11, 20], 0, Dice(2), Chunk(0, 3, 7, 2)),
        ([0, 4, 7, 11, 20], 1, Dice(2), Chunk(1, 4, 7, 2)),
        # one sentence is split inside, before the target is reached
        ([0, 4, 7, 11, 20], 3, Dice(15), Chunk(3, 4, 15, 4, True)),
        ([0, 4, 7, 11, 40], 3, Dice(18), Chunk(3, 4, 18, 4, True)),
        # the end of the document
        ([0, 4, 7], 0, Dice(1), Chunk(0, 2, 4, 1)),
        ([0, 4, 5], 1, Dice(), None),
    ],
)
def test_chunk(borders: list[int], first: int, dice: Dice, expected: Chunk | None) -> None:
    assert chunk(np.array(borders), first, 8, dice) == expected  # type: ignore[arg-type]


def test_fit_cuts_the_longer_one() -> None:
    # 5 + 3 into 5: a (front), a (back), then both have 3: b (back)
    dice = Dice([0.4, 0.6, 0.9])
    assert fit((10, 15), (20, 23), 5, dice) == ((11, 14), (20, 22))  # type: ignore[arg-type]
    assert fit((10, 15), (20, 23), 8, Dice()) == ((10, 15), (20, 23))  # type: ignore[arg-type]


def test_fit_properties() -> None:
    r = rng(3)
    for _ in range(500):
        a = (0, int(r.integers(1, 60)))
        b = (100, 100 + int(r.integers(1, 60)))
        room = int(r.integers(4, 60))
        (a0, a1), (b0, b1) = fit(a, b, room, r)
        assert 0 <= a0 < a1 <= a[1] and 100 <= b0 < b1 <= b[1]
        sizes = [a[1], b[1] - 100]
        while sum(sizes) > room:
            sizes[0 if sizes[0] > sizes[1] else 1] -= 1
        assert [a1 - a0, b1 - b0] == sizes
