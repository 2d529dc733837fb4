"""Long documents as overlapping windows of tokens, and spans inside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tianci.text.tokenizer import Tokenizer

Offsets = NDArray[np.int32]  # (tokens, 2): where each token begins and ends in the text
Floats = NDArray[np.float32]
AT_ONCE = 256  # documents whose tokens, with all that is known of them, are in memory together


class Spans(NamedTuple):
    """Spans, the best first: (n, 2) first and last token, or begin and end in a text; (n,)."""

    places: NDArray[np.int32]
    scores: Floats


class Window(NamedTuple):
    """Where a window stands: in its sequence, and in its document."""

    lead: int  # the place of its first token in the sequence
    first: int  # ... and in the document
    size: int  # tokens
    offsets: Offsets  # of the whole document; all its windows share them
    null: int = 0  # the place in the sequence that stands for "not here"


def read_documents(
    texts: Sequence[str], tokenizer: Tokenizer
) -> dict[str, tuple[list[int], Offsets]]:
    """The tokens of each distinct text and their offsets: many questions share one."""
    distinct = list(dict.fromkeys(texts))
    found: dict[str, tuple[list[int], Offsets]] = {}
    for start in range(0, len(distinct), AT_ONCE):
        some = distinct[start : start + AT_ONCE]
        for text, encoded in zip(some, tokenizer.encode(some, special=False), strict=True):
            found[text] = encoded.ids, np.array(encoded.offsets, np.int32).reshape(-1, 2)
    return found


def windows(length: int, room: int, overlap: int) -> list[tuple[int, int]]:
    """(begin, end) of windows of at most `room` tokens; neighbours share `overlap` of them, at most
    half of a window. An empty document has one empty window."""
    step = room - min(overlap, room // 2)
    found = [(0, min(room, length))]
    while found[-1][1] < length:
        begin = found[-1][0] + step
        found.append((begin, min(begin + room, length)))
    return found


def locate(context: str, text: str, start: int) -> tuple[int, int] | None:
    """Where an answer stands: as given, else at its nearest other place, else None."""
    for wanted in (text, text.strip()):
        if not wanted:
            return None
        if start >= 0 and context.startswith(wanted, start):
            return start, start + len(wanted)
        nearest = _nearest(context, wanted, start)
        if nearest is not None:
            return nearest, nearest + len(wanted)
    return None


def _nearest(context: str, text: str, start: int) -> int | None:
    start = max(0, start)
    before = context.rfind(text, 0, start + len(text))
    after = context.find(text, start)
    found = [place for place in (before, after) if place >= 0]
    return min(found, key=lambda place: abs(place - start)) if found else None


def tokens_between(offsets: Offsets, start: int, end: int) -> tuple[int, int] | None:
    """The first and the last token that have a character of text[start:end], or None."""
    shared = np.minimum(offsets[:, 1], end) - np.maximum(offsets[:, 0], start)
    touched = np.flatnonzero(shared > 0)
    return (int(touched[0]), int(touched[-1])) if len(touched) else None


def best_spans(first: Floats, last: Floats, longest: int, count: int) -> Spans:
    """The best spans of at most `longest` tokens by the sum of two logits, (n,) each.

    All spans are looked at, not only those of the best beginnings and ends: the table has only
    n x longest cells.
    """
    longest = min(longest, len(first))
    if not longest:
        return Spans(np.zeros((0, 2), np.int32), np.zeros(0, np.float32))
    padded = np.concatenate([last, np.full(longest - 1, -np.inf, np.float32)])
    table = first[:, None] + np.lib.stride_tricks.sliding_window_view(padded, longest)
    flat = table.ravel()
    chosen = np.arange(len(flat))
    if count < len(flat):
        chosen = np.argpartition(-flat, count)[:count]
    chosen = chosen[np.isfinite(flat[chosen])]
    begin, length = chosen // longest, chosen % longest
    return _ranked(np.stack([begin, begin + length], 1).astype(np.int32), flat[chosen])


def merge(several: Sequence[Spans], count: int) -> Spans:
    """The best spans of all; one that was found twice counts once, with its better score."""
    places, scores = _ranked(
        np.concatenate([spans.places for spans in several]),
        np.concatenate([spans.scores for spans in several]),
    )
    first = {(begin, end): n for n, (begin, end) in reversed(list(enumerate(places.tolist())))}
    kept = sorted(first.values())[:count]
    return Spans(places[kept], scores[kept])


def _ranked(places: NDArray[np.int32], scores: Floats) -> Spans:
    order = np.lexsort((places[:, 1], places[:, 0], -scores))  # equals in the order of the text
    return Spans(places[order], scores[order])


def inside(window: Window, span: tuple[int, int]) -> tuple[int, int]:
    """Where the span is in the window's sequence; twice its null place if it is not whole."""
    begin, end = span[0] - window.first, span[1] - window.first
    if begin < 0 or end >= window.size:
        return window.null, window.null
    return window.lead + begin, window.lead + end


def in_text(window: Window, spans: Spans) -> Spans:
    """Spans of a window's tokens as spans of the text; those without a character are left out."""
    tokens = spans.places + window.first
    places = np.stack([window.offsets[tokens[:, 0], 0], window.offsets[tokens[:, 1], 1]], 1)
    kept = places[:, 0] < places[:, 1]
    return Spans(places[kept], spans.scores[kept])
