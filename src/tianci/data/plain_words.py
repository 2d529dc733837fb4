"""The ids of plain English words without the engine: the longest piece first (WordPiece).

Only for words of ASCII letters and digits, where nothing but capitals can be cleaned, and only for
tokenizers whose rules say so. The engine's own way costs three times as much for a single word.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from tianci.text.tokenizer import Tokenizer

HEAD = 4  # characters that tell how long a piece may be

_UNCHANGED = {"NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Lowercase", "BertNormalizer"}
_UNCUT = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit", "Punctuation"}


class PlainWords:
    """Looks words up piece by piece; made by `plain_words`."""

    def __init__(self, model: dict[str, Any], lower: bool, dtype: np.dtype[Any]):
        prefix = model["continuing_subword_prefix"]
        data: dict[str, bytes] = {
            piece: dtype.type(id).tobytes() for piece, id in model["vocab"].items()
        }
        self._first = data
        self._later = {p[len(prefix) :]: d for p, d in data.items() if p.startswith(prefix)}
        self._unknown: bytes = data[model["unk_token"]]
        self._reach = [_reach(pieces) for pieces in (self._first, self._later)]
        self._most: int = model["max_input_chars_per_word"]
        self._lower = lower

    def ids(self, word: str) -> bytes:
        """The ids of one word of ASCII letters and digits."""
        if self._lower:
            word = word.lower()
        size = len(word)
        if size > self._most:
            return self._unknown
        found = b""
        start, pieces, reach = 0, self._first, self._reach[0]
        while start < size:
            end = start + reach.get(word[start : start + HEAD], HEAD - 1)
            if end > size:
                end = size
            while end > start:
                if (piece := pieces.get(word[start:end])) is not None:
                    break
                end -= 1
            else:
                return self._unknown
            found += piece
            start, pieces, reach = end, self._later, self._reach[1]
        return found


def _reach(pieces: Iterable[str]) -> dict[str, int]:
    """How long a piece can be that begins with these few characters."""
    longest: dict[str, int] = {}
    for piece in pieces:
        head = piece[:HEAD]
        longest[head] = max(longest.get(head, 0), len(piece))
    return longest


def plain_words(tokenizer: Tokenizer, dtype: np.dtype[Any]) -> PlainWords | None:
    """The short way for plain words, if the tokenizer's rules allow it."""
    rules: dict[str, Any] = json.loads(tokenizer.engine.to_str())
    model = rules["model"]
    cleaning = steps(rules["normalizer"], "normalizers")
    cutting = steps(rules["pre_tokenizer"], "pretokenizers")
    if (
        model["type"] != "WordPiece"
        or not model["continuing_subword_prefix"]
        or model["unk_token"] not in model["vocab"]
        or not {step["type"] for step in cleaning} <= _UNCHANGED
        or not {step["type"] for step in cutting} <= _UNCUT
        # these are looked for after cleaning, or only between other words
        or any(t["normalized"] or t["single_word"] for t in rules["added_tokens"])
    ):
        return None
    lower = any(s["type"] == "Lowercase" or s.get("lowercase") for s in cleaning)
    return PlainWords(model, lower, dtype)


def steps(rule: dict[str, Any] | None, inner: str) -> list[dict[str, Any]]:
    """The steps of a rule of the engine, one or several."""
    if rule is None:
        return []
    return list(rule[inner]) if rule["type"] == "Sequence" else [rule]
