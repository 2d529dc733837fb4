"""Sentences to token ids as bytes, several times faster than the engine alone.

Most tokenizers cut at spaces, and many around each Chinese character, before anything else. Then
the ids of a sentence are the ids of its chunks in a row, and a chunk seen before need not go to the
engine again: natural text repeats its words. Whether a tokenizer is of this sort is read from its
rules, never guessed; all others go through the engine sentence by sentence.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from tianci.data.corpus import token_type
from tianci.text.clean import NUMBER
from tianci.text.tokenizer import Tokenizer

BATCH = 512  # sentences at once; the engine holds some 100 bytes per token of a batch
MOST_CHUNKS = 1 << 16  # remembered in each of two generations, some 20 MB in all
LONGEST_CHUNK = 40  # characters; longer ones hardly come again

_HAN = "\u4e00-\u9fff"
# Steps that change characters without looking beyond a space or a Chinese character.
_LOCAL_CLEANING = {"NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Lowercase", "BertNormalizer"}
_CUT_AT_SPACES = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"}
_LOCAL_CUTTING = _CUT_AT_SPACES | {"Digits", "Punctuation"}


class Encoder:
    """Turns sentences into ids; remembers what it has seen, which changes nothing but the speed."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self.dtype = token_type(len(tokenizer))
        self._code = "H" if self.dtype.itemsize == 2 else "I"
        self._cut = chunking(tokenizer)
        self._known: dict[str, bytes] = {}
        self._older: dict[str, bytes] = {}

    def encode(self, sentences: Sequence[str]) -> tuple[bytes, npt.NDArray[np.int64]]:
        """The ids of all sentences in a row, and how many tokens each has."""
        parts: list[bytes] = []
        lengths: list[int] = []
        for start in range(0, len(sentences), BATCH):
            batch = sentences[start : start + BATCH]
            encoded = self._by_chunks(batch, self._cut) if self._cut else self._directly(batch)
            lengths += [len(ids) for ids in encoded]
            parts += encoded
        return b"".join(parts), np.array(lengths, np.int64) // self.dtype.itemsize

    def _directly(self, batch: Sequence[str]) -> list[bytes]:
        encodings = self.tokenizer.engine.encode_batch_fast(batch, add_special_tokens=False)
        return [array(self._code, encoding.ids).tobytes() for encoding in encodings]

    def _by_chunks(self, batch: Sequence[str], cut: Callable[[str], list[str]]) -> list[bytes]:
        rows = [cut(sentence) for sentence in batch]
        if (
            len(self._known) > MOST_CHUNKS
        ):  # what is not used again until the next time is forgotten
            self._known, self._older = {}, self._known
        known, older = self._known, self._older
        missing = set(chain.from_iterable(rows)).difference(known)
        known.update((chunk, older[chunk]) for chunk in missing.intersection(older))
        new = list(missing.difference(older))
        known.update(zip(new, self._directly(new), strict=True))
        encoded = [b"".join(map(known.__getitem__, row)) for row in rows]
        for chunk in new:
            if len(chunk) > LONGEST_CHUNK:
                del known[chunk]
        return encoded


def chunking(tokenizer: Tokenizer) -> Callable[[str], list[str]] | None:
    """How to cut a sentence so that the ids of its chunks are its ids; None when in doubt."""
    rules: dict[str, Any] = json.loads(tokenizer.engine.to_str())
    cleaning = _steps(rules["normalizer"], "normalizers")
    cutting = _steps(rules["pre_tokenizer"], "pretokenizers")
    if not all(_is_local(step) for step in cleaning):
        return None
    kinds = [step["type"] for step in cutting]
    if not kinds or kinds[0] not in _CUT_AT_SPACES or not set(kinds) <= _LOCAL_CUTTING:
        return None
    added = rules["added_tokens"]
    if any(re.search(f"[ {_HAN}]", token["content"]) for token in added):
        return None
    han = _HAN if any(step.get("handle_chinese_chars") for step in cleaning) else ""
    choices = [f"[{han}]"] if han else []
    plain = not any(token["normalized"] or token["single_word"] for token in added)
    if kinds[0] == "BertPreTokenizer" and plain and "Replace" not in {s["type"] for s in cleaning}:
        # It also cuts around every ASCII punctuation mark. A neighbour that is neither printable
        # ASCII nor Chinese may join or vanish in cleaning, so a run that touches one stays whole.
        alone = f"(?![^ -~{han}])"
        choices = [re.escape(token["content"]) for token in added] + choices
        choices += [f"(?>[A-Za-z0-9]+){alone}", f"[!-/:-@[-`{{-~]{alone}"]
    return re.compile("|".join([*choices, f"[^ {han}]+"])).findall


def _steps(rule: dict[str, Any] | None, inner: str) -> list[dict[str, Any]]:
    if rule is None:
        return []
    return rule[inner] if rule["type"] == "Sequence" else [rule]


def _is_local(step: dict[str, Any]) -> bool:
    if step["type"] == "Replace":  # our own rule for numbers looks at no space and no Chinese
        return bool(step["pattern"] == {"Regex": NUMBER})
    return step["type"] in _LOCAL_CLEANING
