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
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tianci.data.corpus import token_type
from tianci.data.plain_words import ODD, plain_words, steps
from tianci.data.run_table import LONGEST, PADDING, RunTable, characters
from tianci.text.clean import NUMBER
from tianci.text.tokenizer import Tokenizer

BATCH = 8192  # sentences at once; the engine holds some 100 bytes per token of a batch
CHARACTERS = 1 << 19  # at once
SOME = 1 << 12  # characters that tell what text is written in
MOST_RUNS = 1 << 16  # remembered in each of two generations, some 20 MB in all
GROUP = 64  # new runs that go to the engine as one text
FEW = 64  # sentences that go to the engine together because one of them must

# What a character is: a separator, one that stands alone wherever it is, ASCII punctuation (alone
# unless the next character might join it in cleaning), or part of a run. A calm one never joins the
# sign before it.
RUN, ALONE, SIGN, SPACE, CALM = 0, 1, 2, 4, 8
_HAN = (0x4E00, 0x9FFF)
_CHINESE_SIGNS = "–、。〈〉《》「」『』【】〔〕！（），：；？“”‘’—…·"
_ASCII_SIGNS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
# Steps that change characters without looking beyond a space or a Chinese character.
_LOCAL_CLEANING = {"NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Lowercase", "BertNormalizer"}
_CUT_AT_SPACES = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"}
_LOCAL_CUTTING = _CUT_AT_SPACES | {"Digits", "Punctuation"}

Units = npt.NDArray[np.unsignedinteger[Any]]


class Encoder:
    """Turns sentences into ids; remembers what it has seen, which changes nothing but the speed."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self.dtype = token_type(len(tokenizer))
        self._code = "H" if self.dtype.itemsize == 2 else "I"
        rules: dict[str, Any] = json.loads(tokenizer.engine.to_str())
        self._kinds = character_kinds(rules)
        self._lower = _only_lowers(rules)
        self._plain = plain_words(rules)
        self._mark = _mark(tokenizer)
        added = [t.content for t in tokenizer.engine.get_added_tokens_decoder().values()]
        self._special = {  # by their first characters
            first: tuple(token for token in added if token[:1] == first)
            for first in dict.fromkeys(token[:1] for token in added)
        }
        self._ids = np.full(1 << 16, -1, np.int32)  # of characters that stand alone, once known
        self._tables: dict[int, RunTable] = {}  # by bytes per unit of text
        self._known: dict[str, bytes] = {}  # for what has no place in a table
        self._older: dict[str, bytes] = {}

    def encode(self, sentences: Sequence[str]) -> tuple[bytes, npt.NDArray[np.int64]]:
        """The ids of all sentences in a row, and how many tokens each has."""
        parts = [b""]
        lengths = [np.empty(0, np.int64)]
        for batch in _batches(sentences):
            data, counts = self._batch(batch)
            parts.append(data)
            lengths.append(counts)
        return b"".join(parts), np.concatenate(lengths)

    def _batch(self, batch: Sequence[str]) -> tuple[bytes, npt.NDArray[np.int64]]:
        if self._kinds is not None:
            text = "\n".join(batch) + "\n"
            if not self._has_special(text) and (found := self._by_parts(text, len(batch))):
                return found
            if len(batch) > FEW:  # what stands in the way is in one half, perhaps
                parts = [
                    self._batch(batch[: len(batch) // 2]),
                    self._batch(batch[len(batch) // 2 :]),
                ]
                return b"".join(ids for ids, _ in parts), np.concatenate([n for _, n in parts])
        ids = self._directly(batch)
        return b"".join(ids), np.array([len(row) // self.dtype.itemsize for row in ids], np.int64)

    def _has_special(self, text: str) -> bool:
        # a single character is found much faster than a word
        for first, tokens in self._special.items():
            at = text.find(first)
            while at >= 0:
                if text.startswith(tokens, at):
                    return True
                at = text.find(first, at + 1)
        return False

    def _directly(self, batch: Sequence[str]) -> list[bytes]:
        encodings = self.tokenizer.engine.encode_batch_fast(batch, add_special_tokens=False)
        return [array(self._code, encoding.ids).tobytes() for encoding in encodings]

    def _by_parts(self, text: str, lines: int) -> tuple[bytes, npt.NDArray[np.int64]] | None:
        """Cuts a text into characters that stand alone and runs of others, and looks all up; None
        if there are NULs or more lines in it."""
        # UTF-8 suits text with little else than ASCII, because half as many bytes are looked at.
        some = text[:: len(text) // SOME + 1]
        wide = len(some.encode("utf-8")) > 1.1 * len(some)
        data = text.encode("utf-16-le" if wide else "utf-8")
        if self._lower and not wide:  # The and the are one word then
            data = data.lower()
        padded: Units = np.frombuffer(data + PADDING, np.uint16 if wide else np.uint8)
        units = padded[: len(data) // padded.itemsize]
        newlines = np.flatnonzero(units == ord("\n"))
        if len(newlines) != lines or not units.all():
            return None
        kind = self._kind(data, units)
        alone = (kind & ALONE).view(np.bool_)
        alone[:-1] |= (kind[:-1] & SIGN != 0) & (kind[1:] & CALM != 0)
        run = (alone.view(np.uint8) | kind & SPACE) == 0
        first = alone.copy()
        first[0] |= run[0]
        first[1:] |= run[1:] > run[:-1]
        starts = np.flatnonzero(first)
        single = alone.take(starts)
        alone_at, run_at = np.flatnonzero(single), np.flatnonzero(~single)
        codes = _codes(padded, starts.take(alone_at))
        ids = self._ids.take(codes)
        if len(ids) and ids.min() < 0:
            if not self._look_up(codes[ids < 0]):
                return self._by_parts(text, lines)
            ids = self._ids.take(codes)
        last = run.copy()
        last[:-1] = run[:-1] > run[1:]
        ends = np.flatnonzero(last) + 1
        values, table = self._runs(data, padded, starts.take(run_at), ends)
        counts = np.ones(len(starts), np.int64)
        counts[run_at] = values & 0xFFFFFFFF
        after = np.cumsum(counts)
        tokens = np.empty(after[-1] if len(after) else 0, self.dtype)
        tokens[after.take(alone_at) - 1] = ids
        _fill(tokens, (after - counts).take(run_at), values, table.pool)
        before = np.searchsorted(starts, newlines)
        return tokens.tobytes(), np.diff(np.concatenate([[0], after])[before], prepend=0)

    def _kind(self, data: bytes, units: Units) -> npt.NDArray[np.uint8]:
        assert self._kinds is not None
        if units.itemsize == 2:
            found: npt.NDArray[np.uint8] = self._kinds.take(units)
            return found
        table = np.full(256, RUN, np.uint8)
        table[:128] = self._kinds[:128]
        found = np.frombuffer(data.translate(table.tobytes()), np.uint8).copy()
        places = np.flatnonzero(units & 0xF0 == 0xE0)  # where three bytes make a character
        kinds = self._kinds.take(_codes(units, places))
        alone = np.flatnonzero(kinds & ALONE)
        places = places.take(alone)
        found[places], found[places + 1], found[places + 2] = kinds.take(alone), SPACE, SPACE
        return found

    def _look_up(self, codes: Units) -> bool:
        """Learns the ids of characters that stand alone, and gives back whether all do: those of
        several ids go into runs from now on."""
        assert self._kinds is not None
        new = np.unique(codes).tolist()
        right = True
        for code, ids in zip(new, self._grouped([chr(code) for code in new]), strict=True):
            if len(ids) == self.dtype.itemsize:
                self._ids[code] = np.frombuffer(ids, self.dtype)[0]
            else:
                self._kinds[code] = RUN
                right = False
        return right

    def _runs(
        self,
        data: bytes,
        units: Units,
        starts: npt.NDArray[np.int64],
        ends: npt.NDArray[np.int64],
    ) -> tuple[npt.NDArray[np.int64], RunTable]:
        """Where the ids of runs lie in the pool of a table, and how many each has."""
        step = units.itemsize
        if step not in self._tables:
            self._tables[step] = RunTable(self.dtype)
        table = self._tables[step]
        table.make_room()
        first, second, values = table.find(units, starts, ends - starts)
        missing = np.flatnonzero(values == 0)
        short = missing[(ends - starts)[missing] * step <= LONGEST]
        if self._plain is not None and len(short):
            letters = self._plain.letters(characters(first[short], second[short], units.dtype))
            plain = (letters != ODD).all(1)
            values[short[plain]] = table.store(*self._plain.ids(letters[plain]))
            missing = missing[values[missing] == 0]
        if len(missing):
            begins, sizes = starts[missing] * step, (ends - starts)[missing] * step
            cuts = zip(begins.tolist(), (begins + sizes).tolist(), strict=True)
            encoding = "utf-16-le" if step == 2 else "utf-8"
            found = self._remember([data[a:b].decode(encoding) for a, b in cuts])
            counts = np.fromiter(map(len, found), np.int64, len(found)) // self.dtype.itemsize
            values[missing] = table.store(np.frombuffer(b"".join(found), self.dtype), counts)
        table.add(first[short], second[short], values[short])
        return values, table

    def _remember(self, runs: list[str]) -> list[bytes]:
        """The ids of runs that no table has."""
        if len(self._known) > MOST_RUNS:  # what is not used again until the next time is forgotten
            self._known, self._older = {}, self._known
        known, older = self._known, self._older
        for run in runs:
            if run not in known and run in older:
                known[run] = older[run]
        new = list(dict.fromkeys(run for run in runs if run not in known))
        known.update(zip(new, self._grouped(new), strict=True))
        return [known[run] for run in runs]

    def _grouped(self, texts: list[str]) -> list[bytes]:
        """The ids of texts without spaces, many at a time with a mark between them, because each
        call of the engine costs time."""
        if self._mark is None:
            return self._directly(texts)
        mark, id = self._mark
        found: list[bytes] = []
        groups = [texts[at : at + GROUP] for at in range(0, len(texts), GROUP)]
        for group, data in zip(groups, self._directly([mark.join(g) for g in groups]), strict=True):
            marks = np.flatnonzero(np.frombuffer(data, self.dtype) == id) * self.dtype.itemsize
            if len(marks) == len(group) - 1:
                cuts = [0, *marks.tolist(), len(data)]
                skip = [0, *[self.dtype.itemsize] * len(marks)]
                found += [data[a + s : b] for (a, b), s in zip(pairwise(cuts), skip, strict=True)]
            else:  # the mark is among the texts too
                found += self._directly(group)
        return found


def _batches(sentences: Sequence[str]) -> Iterator[Sequence[str]]:
    """Some sentences at a time, fewer when they are long."""
    ends = np.cumsum(np.fromiter(map(len, sentences), np.int64, len(sentences)))
    at = 0
    while at < len(sentences):
        before = int(ends[at - 1]) if at else 0
        full = int(np.searchsorted(ends, before + CHARACTERS)) + 1
        end = min(full, at + BATCH, len(sentences))
        yield sentences[at:end]
        at = end


def _codes(units: Units, places: npt.NDArray[np.int64]) -> npt.NDArray[np.uint16]:
    """The numbers of characters, which are of one or three bytes in UTF-8."""
    codes = units.take(places).astype(np.uint16)
    if units.itemsize == 1:
        long = np.flatnonzero(codes >= 0xE0)
        second, third = (units.take(places.take(long) + n).astype(np.uint16) & 63 for n in (1, 2))
        codes[long] = codes.take(long) << 12 | second << 6 | third
    return codes


def _fill(
    tokens: npt.NDArray[Any],
    starts: npt.NDArray[np.int64],
    values: npt.NDArray[np.int64],
    pool: npt.NDArray[Any],
) -> None:
    """Copies the ids of runs to their places: the first of all, the second of all that have one,
    and so on."""
    counts, places = values & 0xFFFFFFFF, values >> 32
    number = 0
    while len(counts):
        more = np.flatnonzero(counts > number)
        if len(more) < len(counts):
            starts, counts, places = starts.take(more), counts.take(more), places.take(more)
        tokens[starts + number] = pool.take(places + number)
        number += 1


def character_kinds(rules: dict[str, Any]) -> npt.NDArray[np.uint8] | None:
    """What each character is to a tokenizer; None when parts might not make up the whole."""
    cleaning = steps(rules["normalizer"], "normalizers")
    cutting = [step["type"] for step in steps(rules["pre_tokenizer"], "pretokenizers")]
    if not all(_is_local(step) for step in cleaning):
        return None
    if not cutting or cutting[0] not in _CUT_AT_SPACES or not set(cutting) <= _LOCAL_CUTTING:
        return None
    # Special tokens are found as they are written, unless they are compared after cleaning.
    late = [t["content"] for t in rules["added_tokens"] if t["normalized"] or t["single_word"]]
    if any(re.search("[ \u4e00-\u9fff]", token) for token in late):
        return None
    kinds = np.full(1 << 16, RUN, np.uint8)
    kinds[33:127] = CALM
    kinds[[10, 32]] = SPACE | CALM
    if any(step.get("handle_chinese_chars") for step in cleaning):
        kinds[_HAN[0] : _HAN[1] + 1] = ALONE | CALM
    numbers = any(step["type"] == "Replace" for step in cleaning)
    if cutting[0] == "BertPreTokenizer" and not numbers and not late:
        kinds[list(map(ord, _CHINESE_SIGNS))] = ALONE | CALM
        kinds[list(map(ord, _ASCII_SIGNS))] = SIGN | CALM
    return kinds


def _only_lowers(rules: dict[str, Any]) -> bool:
    """Whether capitals of ASCII may be made small before anything else is cleaned. Where
    characters are composed (NFC) they may not: some letters have a composed form in one case."""
    cleaning = steps(rules["normalizer"], "normalizers")
    return [step["type"] for step in cleaning] == ["BertNormalizer"] and cleaning[0]["lowercase"]


def _mark(tokenizer: Tokenizer) -> tuple[str, int] | None:
    """A text between spaces that becomes one known token, to put between others."""
    for sign in ("一", "的", "。", "the", "."):
        ids = tokenizer.engine.encode(sign, add_special_tokens=False).ids
        if len(ids) == 1 and ids[0] != tokenizer.unknown:
            return f" {sign} ", ids[0]
    return None


def _is_local(step: dict[str, Any]) -> bool:
    if step["type"] == "Replace":  # our own rule for numbers looks at no space and no Chinese
        return bool(step["pattern"] == {"Regex": NUMBER})
    return step["type"] in _LOCAL_CLEANING
