from __future__ import annotations

import random

import numpy as np
import pytest

from tianci.data import repeats
from tianci.data.repeats import DocumentHashes, FrequentLines, first_flags, flagged


@pytest.mark.parametrize("at_once", [2, 3, 1 << 21])
def test_copies_are_all_but_the_first(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(repeats, "PASS", at_once)  # several passes over the file
    monkeypatch.setattr(repeats, "BLOCK", 3)
    with DocumentHashes() as hashes:
        for value in [7, 2**64 - 1, 7, 3, 2**64 - 1, 7, 9]:
            hashes.add(value)
        flags = hashes.later_copies()
        assert [flagged(flags, i) for i in range(7)] == [
            False,
            False,
            True,
            False,
            True,
            True,
            False,
        ]
        assert first_flags(flags, 2) == [2, 4]
        assert hashes.at([1, 3]) == [2**64 - 1, 3]
        assert hashes.smallest(2).tolist() == [3, 7]
        hashes.add(1)  # going on after looking is allowed
        assert hashes.smallest(9).tolist() == [1, 3, 7, 9, 2**64 - 1]


def test_no_documents_at_all() -> None:
    with DocumentHashes() as hashes:
        assert hashes.later_copies().tolist() == []
        assert hashes.smallest(3).tolist() == []


def test_frequent_lines_are_counted_exactly_while_they_fit() -> None:
    lines = FrequentLines()
    lines.add(["a", "b", "a", "c"])
    lines.add(["a", "b"])
    assert lines.at_least(2) == {hash("a"): 3, hash("b"): 2}
    assert lines.error == 0


def test_frequent_lines_survive_a_flood_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "MOST_LINES", 100)
    rng = random.Random(0)
    stream = ["often"] * 400 + [f"once {i}" for i in range(10_000)]
    rng.shuffle(stream)
    lines = FrequentLines()
    for start in range(0, len(stream), 7):
        lines.add(stream[start : start + 7])
    found = lines.at_least(100)
    assert list(found) == [hash("often")]
    assert 400 - lines.error <= found[hash("often")] <= 400
    assert lines.error <= len(stream) / 100
    assert len(lines._hashes) <= 100


def test_flags_cover_every_bit() -> None:
    flags = np.packbits([0, 1, 0, 0, 0, 0, 0, 1, 1])
    assert [i for i in range(9) if flagged(flags, i)] == [1, 7, 8]
