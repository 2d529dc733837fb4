"""Where words begin in a row of tokens, by what the vocabulary says: pieces of a word are hidden
together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianci.text.tokenizer import Tokenizer
from tianci.text.words import is_chinese

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Words:
    """What the vocabulary says about word borders, as tables over token ids."""

    continues: Flags  # always part of the word before: "##ing", the second half of a character
    letters_first: Flags  # begins with a letter and has no mark of a word's beginning
    letters_last: Flags  # ends with a letter
    digit: Flags
    point: Flags  # "." and ",": part of a number between digits
    percent: Flags  # part of a number after digits

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Words:
        tokens = [tokenizer.token(i) for i in range(len(tokenizer))]
        nowhere = np.zeros(len(tokens), bool)
        if tokenizer.kind in ("wordpiece", "char", "word"):
            marked = tokenizer.kind != "word"
            continues = np.array([marked and t.startswith("##") and len(t) > 2 for t in tokens])
            first = last = nowhere
        else:
            # A space before the word is part of its first piece, in one of two spellings. Without
            # that mark a piece goes on only where letters meet letters: Chinese has no spaces, and
            # a clause or a text is not a word.
            spelled = [_spelled(t) if tokenizer.kind == "byte-bpe" else t for t in tokens]
            ordinary = np.array([i not in tokenizer.special_ids for i in range(len(tokens))], bool)
            continues = ordinary & np.array([t[:1] == HALF for t in spelled], bool)
            first = ordinary & np.array([_is_letter(t[:1]) for t in spelled], bool)
            last = ordinary & np.array([_is_letter(t[-1:]) for t in spelled], bool)
        plain = [t.removeprefix("##").lstrip("▁Ġ") for t in tokens]
        return cls(
            continues,
            first,
            last,
            np.array([p.isdigit() for p in plain], bool),
            np.array([p in {".", ",", "．"} for p in plain], bool),
            np.array([p in {"%", "％", "‰"} for p in plain], bool),
        )

    @cached_property
    def table(self) -> NDArray[np.uint8]:
        """All of it in one byte per token id: one look-up per token instead of six."""
        known = (self.continues, self.letters_first, self.letters_last, self.digit, self.point,
                 self.percent)  # fmt: skip
        table = np.zeros(len(self.continues), np.uint8)
        for bit, flags in zip(BITS, known, strict=True):
            table[flags] |= bit
        return table

    @cached_property
    def _spelled_together(self) -> bool:
        return bool(self.letters_first.any())

    def starts(self, ids: NDArray[Any]) -> Flags:
        """True where a word begins; 3.14, 1,000 and 12.5% are one word."""
        return self.starts_of(self.table.take(ids))

    def starts_of(self, kinds: NDArray[np.uint8]) -> Flags:
        """The same, of what the table says about the tokens."""
        begins: Flags = (kinds & CONTINUES) == 0
        if self._spelled_together:
            begins[1:] &= ((kinds[1:] & FIRST) == 0) | ((kinds[:-1] & LAST) == 0)
        signs = np.flatnonzero(kinds >= POINT)  # few tokens are signs of numbers
        signs = signs[signs > 0]
        signs = signs[kinds[signs - 1] & DIGIT != 0]
        begins[signs[kinds[signs] & PERCENT != 0]] = False
        points = signs[(kinds[signs] & POINT != 0) & (signs < len(kinds) - 1)]
        points = points[kinds[points + 1] & DIGIT != 0]
        begins[points] = begins[points + 1] = False
        return begins


BITS = CONTINUES, FIRST, LAST, DIGIT, POINT, PERCENT = [np.uint8(1 << bit) for bit in range(6)]
FREE = np.uint8(1 << 6)  # bits from here on are not used by the table
HALF = "\ufffd"  # stands for bytes that are no whole character


def _spelled(token: str) -> str:
    """A piece of a byte vocabulary as text; HALF where it begins or ends inside a character."""
    data = bytes(BYTES[c] for c in token if c in BYTES)
    text = data.decode("utf-8", errors="replace")
    if data and text[0] == HALF and data[0] >= 0xC0:
        # the beginning of a character; two bytes: letters with accents, Greek, Cyrillic
        text = ("é" if data[0] < 0xE0 else "中") + text[1:]
    return text


def _byte_spelling() -> dict[str, int]:
    """The characters in which byte vocabularies write bytes (GPT-2's way)."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    odd = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(odd)}


BYTES = _byte_spelling()


def _is_letter(character: str) -> bool:
    return character.isalnum() and not is_chinese(character)
