"""Offsets into the original text, where the engine's own are not exact.

The engine keeps track of places while it cleans, one character at a time, and loses part of what
belongs together: a number that became #NUM# points at its last digit, a letter and an accent that
were composed point at the letter, an accent that was stripped belongs to nobody. Here the text is
cut into atoms (numbers, and characters with the marks that were joined to them or stripped), and
every offset is widened to whole atoms. Most texts contain none, which is found out at the speed of
a set difference.
"""

from __future__ import annotations

import json
import re
import unicodedata
from functools import lru_cache
from typing import Any

import tokenizers
from tokenizers import normalizers

from tianci.text.clean import NUMBER

Offsets = list[tuple[int, int]]

# Cleaning that composes, decomposes or drops characters.
JOINING = {"BertNormalizer", "NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Nmt", "Precompiled"}
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
LONGEST_CLUSTER = 64  # nobody writes more marks on a letter, and the work grows with the square
SPACED = {"Metaspace", "ByteLevel"}  # these keep the space in front of a word with its first piece


class Surface:
    """Corrects the offsets of one engine."""

    def __init__(self, engine: tokenizers.Tokenizer):
        self._stages = _flat(engine.normalizer)
        steps = {name for name, _ in _steps(engine.normalizer)}
        replaced = [
            step.get("pattern") for name, step in _steps(engine.normalizer) if name == "Replace"
        ]
        self._number = re.compile(NUMBER) if {"Regex": NUMBER} in replaced else None
        self._joins = bool(steps & JOINING)
        self._spaced = any(name in SPACED for name, _ in _steps(engine.pre_tokenizer))
        self._plain: set[str] = set()  # characters seen that never join the one before

    def correct(self, text: str, tokens: list[str], offsets: Offsets) -> Offsets:
        """The same offsets, so that text[start:end] is what each token was made of."""
        if self._joins or self._number:
            atoms = self._atoms(text)
            if atoms:
                offsets = [_widen(start, end, atoms) for start, end in offsets]
        if self._spaced:
            offsets = [
                _trim(text, start, end) if token.strip("▁Ġ") else (start, end)
                for token, (start, end) in zip(tokens, offsets, strict=True)
            ]
        return offsets

    def _atoms(self, text: str) -> dict[int, tuple[int, int]]:
        """Place in the text to the atom around it, for atoms of more than one character."""
        atoms: dict[int, tuple[int, int]] = {}
        if self._joins and not text.isascii():
            odd = set(text) - self._plain
            joining = {character for character in odd if joins(character)}
            self._plain |= odd - joining
            if joining:
                self._add_clusters(text, joining, atoms)
        if self._number:
            for found in self._number.finditer(text):
                span = found.span()
                for place in range(*span):
                    atoms[place] = span
        return atoms

    def _add_clusters(
        self, text: str, joining: set[str], atoms: dict[int, tuple[int, int]]
    ) -> None:
        start = 0
        while start < len(text):
            end = start + 1
            while end < len(text) and text[end] in joining:
                end += 1
            if end > start + 1:
                low = start + text[start].isspace()  # nothing joins a space
                for first, last in self._inside(text[low:end]):
                    for place in range(low + first, low + last):
                        atoms[place] = (low + first, low + last)
            start = end

    def _inside(self, cluster: str) -> list[tuple[int, int]]:
        """The atoms of a character and its followers: cut where cleaned parts make the whole."""
        if len(cluster) > LONGEST_CLUSTER:
            return [(0, len(cluster))]
        whole = self._clean(cluster)
        cuts = [
            place
            for place in range(1, len(cluster))
            if whole == _joined(self._clean(cluster[:place]), self._clean(cluster[place:]))
        ]
        atoms: list[tuple[int, int]] = []
        for start, end in zip([0, *cuts], [*cuts, len(cluster)], strict=True):
            if (
                atoms and not self._clean(cluster[start:end])[-1]
            ):  # stripped: goes with what it stood on
                atoms[-1] = (atoms[-1][0], end)
            else:
                atoms.append((start, end))
        return atoms

    def _clean(self, text: str) -> list[str]:
        """The text after each step: one may compose what the next takes apart again."""
        text = LONE_SURROGATE.sub("\ufffd", text)
        results = []
        for stage in self._stages:
            text = stage.normalize_str(text)
            results.append(text.replace(" ", ""))
        return results


def _joined(left: list[str], right: list[str]) -> list[str]:
    return [first + second for first, second in zip(left, right, strict=True)]


def _flat(normalizer: Any) -> list[Any]:
    """The steps of a normalizer one by one, however deep they lie in sequences of sequences."""
    found = []
    for name, step in _steps(normalizer):
        if name != "Sequence":
            # not by index: a sequence inside a sequence has itself as its first step there
            part: Any = normalizers.Lowercase()
            part.__setstate__(json.dumps(step).encode())
            found.append(part)
    return found


def _steps(part: Any) -> list[tuple[str, dict[str, Any]]]:
    """Names and settings of the steps of a normalizer or pre-tokenizer."""
    if part is None:
        return []
    found: list[tuple[str, dict[str, Any]]] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("type"), str):
                found.append((value["type"], value))
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(json.loads(part.__getstate__()))
    return found


@lru_cache(maxsize=65536)
def joins(character: str) -> bool:
    """Whether cleaning may mix a character with the one before: marks, jamo, sound marks."""
    if unicodedata.category(character)[0] == "M":
        return True
    first = unicodedata.normalize("NFKD", character)[0]
    if unicodedata.combining(first):
        return True
    # Vowels and finals of Hangul are the only others that compose with what stands before.
    return "\u1160" <= first <= "\u11ff" or "\ud7b0" <= first <= "\ud7ff" or first in "\u09be\u09d7"


def _widen(start: int, end: int, atoms: dict[int, tuple[int, int]]) -> tuple[int, int]:
    if end <= start:
        return start, end
    return atoms.get(start, (start, 0))[0], atoms.get(end - 1, (0, end))[1]


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Without the space around a piece, unless it is all space."""
    surface = text[start:end]
    bare = surface.strip()
    if not bare or len(bare) == len(surface):
        return start, end
    start += surface.index(bare[0])
    return start, start + len(bare)
