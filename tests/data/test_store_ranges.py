"""Ranges of tokens across shards, and ranges that touch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tianci.data.corpus import Split
from tianci.data.store import SplitStore
from tianci.train.examples import joined_ranges


def shard(begin: int, end: int, words: bool) -> Any:
    def starts(a: int, b: int) -> Any:
        return np.arange(begin + a, begin + b) % 3 == 0 if words else None

    return SimpleNamespace(
        token_count=end - begin, tokens=np.arange(begin, end), word_starts=starts
    )


@pytest.mark.parametrize("words", [True, False])
def test_a_range_may_cross_shards(words: bool) -> None:
    shards = [shard(0, 5, words), shard(5, 7, words), shard(7, 20, words)]
    store = SplitStore(SimpleNamespace(shards=shards))  # type: ignore[arg-type]
    for start, end in [(0, 5), (1, 4), (5, 7), (4, 6), (0, 20), (6, 9), (7, 7), (19, 20)]:
        assert store.read(start, end).tolist() == list(range(start, end))
        assert store.read_all([(1, 3), (start, end)])[1].tolist() == list(range(start, end))
        known = store.word_starts(start, end)
        if words:
            assert known is not None and known.tolist() == [n % 3 == 0 for n in range(start, end)]
        else:
            assert known is None


def test_ranges_that_touch_are_read_at_once() -> None:
    assert joined_ranges(np.array([[3, 5], [5, 9], [12, 14], [9, 10]])) == [
        (3, 9),
        (12, 14),
        (9, 10),
    ]
    assert joined_ranges(np.array([[3, 5, 5, 8], [8, 9, 20, 21]])) == [(3, 9), (20, 21)]
    assert joined_ranges(np.zeros((0, 2), np.int64)) == []


def test_sentences_of_many_documents() -> None:
    """Documents of several shards, in any order, one of them twice."""
    dice, shards = np.random.default_rng(0), []
    for documents in (3, 1, 7):
        lengths = dice.integers(1, 5, documents)
        tokens = np.cumsum([0, *dice.integers(1, 9, lengths.sum())], dtype=np.int32)
        shards.append(
            SimpleNamespace(
                token_count=int(tokens[-1]), document_count=documents, sentences=tokens,
                sentence_count=int(lengths.sum()),
                documents=np.cumsum([0, *lengths], dtype=np.int32),
            )
        )  # fmt: skip
    store = SplitStore(Split(shards))
    some = np.append(dice.permutation(11), 4)
    borders, counts = store.many_sentences(some)
    assert borders.dtype == counts.dtype == np.int64
    parts = np.split(borders, np.cumsum(counts)[:-1])
    for number, mine in zip(some.tolist(), parts, strict=True):
        assert mine.tolist() == store.sentences(number).tolist()
