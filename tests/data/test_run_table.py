from __future__ import annotations

import random

import numpy as np
import pytest

from tianci.data import run_table
from tianci.data.run_table import PADDING, RunTable


def ask(table: RunTable, text: str, unit: str) -> list[list[int] | None]:
    """The ids of the words of a text, None for those that are not known; then all are added."""
    data = text.encode("utf-8" if unit == "u1" else "utf-16-le")
    units = np.frombuffer(data + PADDING, unit)
    borders = np.flatnonzero(units == 32)
    starts = np.concatenate([[0], borders + 1])
    ends = np.append(borders, len(data) // units.itemsize)
    table.make_room()
    first, second, values = table.find(units, starts, ends - starts)
    found: list[list[int] | None] = []
    for value in values.tolist():
        place, count = value >> 32, value & 0xFFFFFFFF
        found.append(table.pool[place : place + count].tolist() if value else None)
    new: dict[str, int] = {}
    for at, word in enumerate(text.split(" ")):
        if found[at] is None and len(word) * units.itemsize <= 16:
            new.setdefault(word, at)
    where = np.array(list(new.values()), np.int64)
    stored = np.array([id for word in new for id in ids(word)], "<u2")
    counts = np.array([len(ids(word)) for word in new], np.int64)
    table.add(first[where], second[where], table.store(stored, counts))
    return found


def ids(word: str) -> list[int]:
    return [ord(c) for c in word[1:]]  # none for a single letter


@pytest.mark.parametrize("unit", ["u1", "u2"])
def test_what_was_added_is_found_again(unit: str) -> None:
    table = RunTable(np.dtype("<u2"))
    text = "a ab abc a abcdefgh abcdefghi ababababababababa"
    assert ask(table, text, unit) == [None] * 7
    long = None if unit == "u2" else ids("abcdefghi")
    expected = [[], ids("ab"), ids("abc"), [], ids("abcdefgh"), long, None]
    assert ask(table, text, unit) == expected


@pytest.mark.parametrize("unit", ["u1", "u2"])
def test_a_table_that_is_too_small_forgets_but_is_never_wrong(unit: str) -> None:
    table = RunTable(np.dtype("<u2"), bits=6)
    rng = random.Random(0)
    words = ["".join(rng.choices("abc", k=rng.randrange(1, 12))) for _ in range(300)]
    known = 0
    for _ in range(200):
        some = rng.choices(words, k=20)
        for word, found in zip(some, ask(table, " ".join(some), unit), strict=True):
            assert found is None or found == ids(word)
            known += found is not None
    assert known > 100
    assert len(table.pool) == 1 << 12  # what was forgotten made room


def test_ids_of_runs_without_a_place_do_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_table, "MOST_IDS", 1000)
    table = RunTable(np.dtype("<u2"))
    for number in range(1000):
        table.make_room()
        table.store(np.full(100, number, "<u2"), np.array([100]))
    assert len(table.pool) == 1 << 12
