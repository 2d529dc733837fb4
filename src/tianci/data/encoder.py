"""Sentences to token ids, several times faster than the engine alone.

Most tokenizers cut at spaces, around each Chinese character and at punctuation before anything
else. Then the ids of a sentence are the ids of its parts in a row: characters that always stand
alone are looked up in a table, and a run of others that was seen before need not go to the engine
again, for natural text repeats its words. Whether a tokenizer is of this sort is read from its
rules, never guessed; all others go through the engine sentence by sentence.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Sequence
from itertools import compress, count, pairwise, repeat
from operator import is_
from typing import Any

import numpy as np
import numpy.typing as npt

from tianci.data.corpus import token_type
from tianci.text.clean import NUMBER
from tianci.text.tokenizer import Tokenizer

BATCH = 512  # sentences at once; the engine holds some 100 bytes per token of a batch
MOST_RUNS = 1 << 16  # remembered in each of two generations, some 20 MB in all
LONGEST_RUN = 40  # characters; longer ones hardly come again
GROUP = 64  # new words that go to the engine as one text

# What a character is: a separator, one that stands alone wherever it is, ASCII punctuation (alone
# unless the next character might join it in cleaning), or part of a run.
SPACE, ALONE, SIGN, RUN = range(4)
_HAN = (0x4E00, 0x9FFF)
_CHINESE_SIGNS = "、。〈〉《》「」『』【】〔〕！（），：；？“”‘’—…·"
_ASCII_SIGNS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
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
        self._kinds = character_kinds(tokenizer)
        self._continues = _continuing(tokenizer) if self._kinds is not None else None
        self._special = [t.content for t in tokenizer.engine.get_added_tokens_decoder().values()]
        self._ids = np.full(1 << 16, -1, np.int32)  # of characters that stand alone, once known
        self._known: dict[str, bytes] = {}
        self._older: dict[str, bytes] = {}

    def encode(self, sentences: Sequence[str]) -> tuple[bytes, npt.NDArray[np.int64]]:
        """The ids of all sentences in a row, and how many tokens each has."""
        parts = [b""]
        lengths = [np.empty(0, np.int64)]
        for start in range(0, len(sentences), BATCH):
            data, counts = self._batch(sentences[start : start + BATCH])
            parts.append(data)
            lengths.append(counts)
        return b"".join(parts), np.concatenate(lengths)

    def _batch(self, batch: Sequence[str]) -> tuple[bytes, npt.NDArray[np.int64]]:
        text = "\n".join(batch) + "\n"
        fast = self._kinds is not None and text.count("\n") == len(batch)
        if fast and not any(token in text for token in self._special):
            return self._by_parts(text, self._kinds)  # type: ignore[arg-type]
        ids = self._directly(batch)
        return b"".join(ids), np.array([len(row) // self.dtype.itemsize for row in ids], np.int64)

    def _directly(self, batch: Sequence[str]) -> list[bytes]:
        encodings = self.tokenizer.engine.encode_batch_fast(batch, add_special_tokens=False)
        return [array(self._code, encoding.ids).tobytes() for encoding in encodings]

    def _by_parts(
        self, text: str, kinds: npt.NDArray[np.uint8]
    ) -> tuple[bytes, npt.NDArray[np.int64]]:
        exact = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        codes = np.minimum(exact, 0xFFFF)  # beyond the basic plane all is one: part of a run
        kind = kinds[codes]
        # A neighbour that is neither printable ASCII nor alone may join a sign in cleaning.
        calm = (kind < SIGN) | ((codes > 32) & (codes < 127))
        alone = kind == ALONE
        alone[:-1] |= (kind[:-1] == SIGN) & calm[1:]
        places = np.flatnonzero(alone)
        ids = self._ids[codes[places]]
        if len(ids) and ids.min() < 0:
            self._look_up(codes[places[ids < 0]], kinds)
            return self._by_parts(text, kinds)
        run = ~alone & (kind != SPACE)
        starts = np.flatnonzero(np.diff(run.view(np.int8), prepend=0) > 0)
        blanked = np.where(run, exact, np.uint32(32)).tobytes().decode("utf-32-le")
        found = self._runs(list(filter(None, blanked.split(" "))))
        counts = np.zeros(len(codes), np.int32)
        counts[places] = 1
        counts[starts] = np.fromiter(map(len, found), np.int32, len(found)) // self.dtype.itemsize
        after = np.cumsum(counts)
        tokens = np.empty(after[-1], self.dtype)
        from_run = np.ones(len(tokens), np.bool_)
        from_run[after[places] - 1] = False
        tokens[~from_run] = ids
        tokens[from_run] = np.frombuffer(b"".join(found), self.dtype)
        return tokens.tobytes(), np.diff(after[codes == 10], prepend=0)

    def _look_up(self, codes: npt.NDArray[np.uint32], kinds: npt.NDArray[np.uint8]) -> None:
        """Learns the ids of characters that stand alone; those of several ids go into runs."""
        new = np.unique(codes).tolist()
        for code, ids in zip(new, self._directly([chr(code) for code in new]), strict=True):
            if len(ids) == self.dtype.itemsize:
                self._ids[code] = np.frombuffer(ids, self.dtype)[0]
            else:
                kinds[code] = RUN

    def _runs(self, runs: list[str]) -> list[bytes]:
        """The ids of runs of characters."""
        if len(self._known) > MOST_RUNS:  # what is not used again until the next time is forgotten
            self._known, self._older = {}, self._known
        known, older = self._known, self._older
        found = list(map(known.get, runs))
        missing = list(compress(count(), map(is_, found, repeat(None))))
        different = {runs[at] for at in missing}
        known.update((run, older[run]) for run in different if run in older)
        new = [run for run in different if run not in older]
        if self._continues is not None:
            words = [run for run in new if run.isascii() and run.isalnum()]
            known.update(self._words(words, self._continues))
            new = [run for run in new if run not in known]
        known.update(zip(new, self._directly(new), strict=True))
        for at in missing:
            found[at] = known[runs[at]]
        for run in different:
            if len(run) > LONGEST_RUN:
                del known[run]
        return found  # type: ignore[return-value]

    def _words(self, words: list[str], continues: npt.NDArray[np.bool_]) -> dict[str, bytes]:
        """The ids of plain words, many in one text, because each text costs the engine time."""
        found: dict[str, bytes] = {}
        groups = [words[at : at + GROUP] for at in range(0, len(words), GROUP)]
        for group, data in zip(groups, self._directly([" ".join(g) for g in groups]), strict=True):
            starts = np.flatnonzero(~continues[np.frombuffer(data, self.dtype)])
            if len(starts) == len(group):
                cuts = [*(starts * self.dtype.itemsize).tolist(), len(data)]
                found.update(zip(group, (data[a:b] for a, b in pairwise(cuts)), strict=True))
        return found


def character_kinds(tokenizer: Tokenizer) -> npt.NDArray[np.uint8] | None:
    """What each character is to this tokenizer; None when parts might not make up the whole."""
    rules: dict[str, Any] = json.loads(tokenizer.engine.to_str())
    cleaning = _steps(rules["normalizer"], "normalizers")
    cutting = [step["type"] for step in _steps(rules["pre_tokenizer"], "pretokenizers")]
    if not all(_is_local(step) for step in cleaning):
        return None
    if not cutting or cutting[0] not in _CUT_AT_SPACES or not set(cutting) <= _LOCAL_CUTTING:
        return None
    # Special tokens are found as they are written, unless they are compared after cleaning.
    late = [t["content"] for t in rules["added_tokens"] if t["normalized"] or t["single_word"]]
    if any(re.search("[ \u4e00-\u9fff]", token) for token in late):
        return None
    kinds = np.full(1 << 16, RUN, np.uint8)
    kinds[[10, 32]] = SPACE
    if any(step.get("handle_chinese_chars") for step in cleaning):
        kinds[_HAN[0] : _HAN[1] + 1] = ALONE
    numbers = any(step["type"] == "Replace" for step in cleaning)
    if cutting[0] == "BertPreTokenizer" and not numbers and not late:
        kinds[list(map(ord, _CHINESE_SIGNS))] = ALONE
        kinds[list(map(ord, _ASCII_SIGNS))] = SIGN
    return kinds


def _continuing(tokenizer: Tokenizer) -> npt.NDArray[np.bool_] | None:
    """Which ids go on with a word (##), for tokenizers that mark them; all others begin one."""
    model = json.loads(tokenizer.engine.to_str())["model"]
    if model["type"] != "WordPiece" or not (prefix := model["continuing_subword_prefix"]):
        return None
    flags = np.zeros(len(tokenizer), np.bool_)
    flags[[id for token, id in model["vocab"].items() if token.startswith(prefix)]] = True
    return flags


def _steps(rule: dict[str, Any] | None, inner: str) -> list[dict[str, Any]]:
    if rule is None:
        return []
    return rule[inner] if rule["type"] == "Sequence" else [rule]


def _is_local(step: dict[str, Any]) -> bool:
    if step["type"] == "Replace":  # our own rule for numbers looks at no space and no Chinese
        return bool(step["pattern"] == {"Regex": NUMBER})
    return step["type"] in _LOCAL_CLEANING
