"""The words of a row that is to be tagged, and where they stand in its text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tianci.data.entity_spans import split
from tianci.data.rows import Row
from tianci.errors import UserError
from tianci.text.aligned import Sentence, Spans
from tianci.text.words import chinese_share

BLANK = "▁"  # a blank that is a word, in files with a word per line
MOSTLY_CHINESE = 0.3  # of the characters: such a text has no blanks between words


def sentence_of(row: Row, unit: str) -> Sentence:
    """The text of a row and its words: those it brings, or what `unit` says of its text."""
    words, text = row.values.get("words"), row.values.get("text")
    if words is not None:
        words = [" " if word == BLANK else word for word in words]
        spans = None if text is None else _find(words, text)
        return _join(words, unit) if spans is None else Sentence(text or "", spans)
    if text is None:
        raise UserError(f'{row.place}: nothing to tag; give it "words" or "text"')
    if "tags" in row.values:
        return Sentence(text, _as_tagged(row, text, len(row.values["tags"])))
    return Sentence(text, _characters(text) if unit == "character" else split(text))


def _join(words: Sequence[str], unit: str) -> Sentence:
    """Words put together as people write them."""
    text = "".join(words)
    blank = int(unit != "character" and (text.isascii() or chinese_share(text) < MOSTLY_CHINESE))
    spans, at = [], 0
    for word in words:
        spans.append((at, at + len(word)))
        at += len(word) + blank
    return Sentence((" " * blank).join(words), spans)


def _find(words: Sequence[str], text: str) -> Spans | None:
    """Where the words are in the text, one after the other; None if one is not there."""
    spans, at = [], 0
    for word in words:
        start = text.find(word, at)
        if start < 0:
            return None
        at = start + len(word)
        spans.append((start, at))
    return spans


def _as_tagged(row: Row, text: str, count: int) -> Spans:
    """The words of a text with so many tags: its words, or all of its characters."""
    words = [found.span() for found in re.finditer(r"\S+", text)]
    if len(words) == count:
        return words
    if len(text) == count:
        return [(at, at + 1) for at in range(count)]
    raise UserError(
        f"{row.place}: {count} tags for a text of {len(words)} words and {len(text)} characters; "
        'give the words too ("words")'
    )


def _characters(text: str) -> Spans:
    return [(at, at + 1) for at, one in enumerate(text) if not one.isspace()]
