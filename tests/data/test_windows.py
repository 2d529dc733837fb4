"""Windows and spans against hand-made cases and against looking at everything."""

from __future__ import annotations

import numpy as np
import pytest

from tests.goals import tiny
from tianci.data.windows import (
    Spans,
    Window,
    best_spans,
    in_text,
    inside,
    locate,
    merge,
    read_documents,
    tokens_between,
    windows,
)


@pytest.mark.parametrize(
    ("length", "room", "overlap", "expected"),
    [
        (10, 4, 2, [(0, 4), (2, 6), (4, 8), (6, 10)]),
        (10, 4, 0, [(0, 4), (4, 8), (8, 10)]),
        (4, 4, 2, [(0, 4)]),
        (5, 4, 9, [(0, 4), (2, 5)]),  # no more than half is shared
        (3, 1, 1, [(0, 1), (1, 2), (2, 3)]),
        (0, 4, 2, [(0, 0)]),
    ],
)
def test_windows_by_hand(length: int, room: int, overlap: int, expected: list) -> None:
    assert windows(length, room, overlap) == expected


def test_every_short_span_is_whole_in_some_window() -> None:
    for length, room, overlap in [(50, 9, 4), (37, 8, 3), (100, 20, 7)]:
        found = windows(length, room, overlap)
        for begin in range(length - overlap):
            assert any(low <= begin and begin + overlap < high + 1 for low, high in found)


@pytest.mark.parametrize(
    ("text", "start", "expected"),
    [
        ("cd", 2, (2, 4)),
        ("ab", 0, (0, 2)),
        ("ab", 5, (4, 6)),  # nearest
        ("ab", 7, (8, 10)),
        ("ab", 99, (8, 10)),
        ("ab", -3, (0, 2)),
        (" cd ", 2, (2, 4)),  # blanks that the text does not have
        ("xy", 0, None),
        ("", 0, None),
        ("  ", 0, None),
    ],
)
def test_answers_are_located(text: str, start: int, expected: tuple | None) -> None:
    assert locate("abcdabefab", text, start) == expected


def test_tokens_of_a_piece_of_text() -> None:
    offsets = np.array([(0, 3), (4, 6), (6, 7), (8, 8), (9, 12)], np.int32)  # 3 has no character
    assert tokens_between(offsets, 4, 7) == (1, 2)
    assert tokens_between(offsets, 2, 5) == (0, 1)  # widened to whole tokens
    assert tokens_between(offsets, 7, 12) == (4, 4)
    assert tokens_between(offsets, 7, 9) is None  # only blanks
    assert tokens_between(offsets[:0], 0, 5) is None


def test_best_spans_by_hand() -> None:
    first = np.array([0.0, 5.0, 1.0], np.float32)
    last = np.array([9.0, 2.0, 4.0], np.float32)
    # the best end (9) stands before the best beginning (5)
    spans = best_spans(first, last, longest=2, count=3)
    assert spans.places.tolist() == [[0, 0], [1, 2], [1, 1]]
    assert spans.scores.tolist() == [9.0, 9.0, 7.0]
    assert best_spans(first, last, longest=1, count=9).places.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert len(best_spans(first[:0], last[:0], 5, 3).places) == 0


def test_best_spans_are_the_best_of_all() -> None:
    r = np.random.default_rng(0)
    for size, longest in [(1, 5), (7, 3), (40, 12), (40, 100)]:
        first, last = r.normal(size=(2, size)).astype(np.float32)
        spans = {
            (a, b): first[a] + last[b]
            for a in range(size)
            for b in range(a, min(size, a + longest))
        }
        ranking = sorted(spans, key=lambda span: -spans[span])[:20]
        found = best_spans(first, last, longest, 20)
        assert [tuple(place) for place in found.places.tolist()] == ranking
        np.testing.assert_allclose(found.scores, [spans[s] for s in ranking], rtol=1e-6)


def test_a_span_in_two_windows_counts_once() -> None:
    left = Spans(np.array([(5, 6), (1, 2)], np.int32), np.array([3.0, 2.0], np.float32))
    right = Spans(np.array([(9, 9), (5, 6)], np.int32), np.array([7.0, 4.0], np.float32))
    both = merge([left, right], 5)
    assert both.places.tolist() == [[9, 9], [5, 6], [1, 2]]
    assert both.scores.tolist() == [7.0, 4.0, 2.0]
    assert merge([left, right], 1).places.tolist() == [[9, 9]]


def test_places_in_the_sequence_and_in_the_text() -> None:
    offsets = np.array([(0, 1), (2, 3), (4, 5), (5, 5), (6, 8)], np.int32)
    window = Window(lead=3, first=2, size=3, offsets=offsets)
    assert inside(window, (2, 4)) == (3, 5)
    assert inside(window, (1, 2)) == (0, 0)  # begins before the window
    assert inside(window, (4, 5)) == (0, 0)  # ends behind it
    assert inside(window, (-1, -1)) == (0, 0)
    spans = Spans(np.array([(0, 2), (1, 1)], np.int32), np.array([2.0, 1.0], np.float32))
    assert in_text(window, spans).places.tolist() == [[4, 8]]  # the second has no character


def test_each_document_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = tiny.tokenizer()
    read: list[str] = []
    encode = tokenizer.encode
    monkeypatch.setattr(
        tokenizer, "encode", lambda texts, **options: read.extend(texts) or encode(texts, **options)
    )
    documents = read_documents(["a 今天", "the dog", "a 今天", "", "the dog"], tokenizer)
    assert read == ["a 今天", "the dog", ""]
    ids, offsets = documents["a 今天"]
    assert ids == tiny.ids("a 今 天")
    assert offsets.tolist() == [[0, 1], [2, 3], [3, 4]]
    assert documents[""][1].shape == (0, 2)
