"""Entities as spans of characters, and the words of a text with a tag each: the one into the other.

A row may say {"text": "...", "entities": [{"label": "PER", "start": 0, "end": 3}]}, the end not
included, as `tianci predict` answers.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from typing import Any

from tianci.text.aligned import Spans
from tianci.text.words import CHINESE, is_chinese

ENTITIES = "entities"  # the column
LABELS = ("label", "type", "entity_group", "entity")  # what others call the kind of an entity

# U.S., a Chinese character, a word with inner marks (don't, 3.5), or any other character
_WORD = re.compile(
    f"(?:[^\\W\\d_{CHINESE}]\\.){{2,}}|[{CHINESE}]"
    f"|[^\\W{CHINESE}]+(?:['’.,_-][^\\W{CHINESE}]+)*|\\S"
)


def split(text: str) -> Spans:
    """Where words are: Chinese characters and punctuation one by one, letters and digits in
    runs."""
    spans: list[tuple[int, int]] = []
    for found in _WORD.finditer(text):
        start, end = found.span()
        if spans and spans[-1][1] == start and _joins(text, start):
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans


def _joins(text: str, at: int) -> bool:
    """Whether a mark (accent, vowel sign) holds a character to the one before."""
    if unicodedata.category(text[at])[0] == "M":
        return True
    after_mark = unicodedata.category(text[at - 1])[0] == "M"
    return after_mark and text[at].isalnum() and not is_chinese(text[at])


def words_and_tags(text: str, entities: Any) -> tuple[list[str], list[str]]:
    """The words of a text and their tags in IOB2; ValueError says what is wrong with an entity.

    A word that an entity cuts becomes two, so that every entity can be said.
    """
    marked = sorted(_entity(text, one) for one in entities)
    for (_, end, name), (start, _, other) in pairwise(marked):
        if start < end:
            raise ValueError(f"has entities that overlap ({name} and {other} at {start}); keep one")
    borders = {border for start, end, _ in marked for border in (start, end)}
    spans: list[tuple[int, int]] = []
    for start, end in split(text):
        cuts = [start, *sorted(border for border in borders if start < border < end), end]
        spans += pairwise(cuts)
    tags = ["O"] * len(spans)
    for start, end, name in marked:
        inside = [n for n, span in enumerate(spans) if start <= span[0] and span[1] <= end]
        if not inside:
            raise ValueError(f"has an entity ({name} at {start}) of blanks only; remove it")
        for n in inside:
            tags[n] = f"{'B' if n == inside[0] else 'I'}-{name}"
    return [text[start:end] for start, end in spans], tags


def _entity(text: str, one: Any) -> tuple[int, int, str]:
    """Start, end and label of an entity that is inside the text."""
    known = one if isinstance(one, dict) else {}
    name = next((known[key] for key in LABELS if isinstance(known.get(key), str)), None)
    start, end = known.get("start"), known.get("end")
    whole = all(isinstance(n, int) and not isinstance(n, bool) for n in (start, end))
    if name is None or start is None or end is None or not whole:
        raise ValueError('needs "label", "start" and "end" in each entity')
    if not 0 <= start < end <= len(text):
        raise ValueError(
            f"has an entity from {start} to {end}, but the text has {len(text)} characters "
            "(the end is not included)"
        )
    word = known.get("word")
    if isinstance(word, str) and word != text[start:end]:
        raise ValueError(
            f'has the entity "{word}", but from {start} to {end} the text says '
            f'"{text[start:end]}" (the end is not included)'
        )
    return start, end, name
