"""The ids of plain English words without the engine: the longest piece first (WordPiece).

Only for words of ASCII letters and digits, where nothing but capitals can be cleaned, and only for
tokenizers whose rules say so. Many words are cut at once: all walk through one tree of pieces in
step, a letter at a time, and each goes back to the end of its last whole piece where no piece goes
on. The engine's own way costs ten times as much for a word.
"""

from __future__ import annotations

import string
from typing import Any

import numpy as np
import numpy.typing as npt

Letters = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

ODD = 255  # what is neither a letter nor a digit
MOST_CELLS = 1 << 24  # of a tree, 64 MB; larger vocabularies are left to the engine
_FIRST, _LATER = 1, 2  # roots of pieces that begin a word and of others; node 0 is a dead end

_UNCHANGED = {"NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Lowercase", "BertNormalizer"}
_UNCUT = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit", "Punctuation"}


class PlainWords:
    """Cuts words into pieces; made by `plain_words`."""

    def __init__(self, numbers: Letters, cells: npt.NDArray[np.int32], unknown: int, most: int):
        self._numbers = numbers
        self._cells = cells
        self._row = _row(numbers)
        self._unknown = unknown
        self._most = most

    def letters(self, characters: npt.NDArray[Any]) -> Letters:
        """The numbers of characters, a word per row; `ODD` where a word is not plain, 0 behind its
        end."""
        return _letters(characters, self._numbers)

    def ids(self, letters: Letters) -> tuple[npt.NDArray[np.int32], Numbers]:
        """The ids of plain words in a row, and how many each word has."""
        count, width = letters.shape
        flat = letters.ravel()
        found = np.zeros((count, width), np.int32)
        counts = np.zeros(count, np.int64)
        word = np.arange(count)
        at = word * width
        node = np.full(count, _FIRST * self._row)
        whole = np.zeros(count, np.int64)  # where the longest piece so far ends
        best = np.full(count, -1, np.int32)  # and its id
        while len(word):
            node = self._cells.take(node + flat.take(at)).astype(np.int64)
            at += 1
            stuck = np.flatnonzero(node == 0)
            if len(stuck):
                words, ids, ends = word.take(stuck), best.take(stuck), whole.take(stuck)
                found[words, counts.take(words)] = ids
                counts[words] += 1
                at[stuck], node[stuck], best[stuck] = ends, _LATER * self._row, -1
                bad = ids < 0
                over = bad | (flat.take(ends) == 0)
                if over.any():
                    found[words[bad], 0], counts[words[bad]] = self._unknown, 1
                    going = np.ones(len(word), np.bool_)
                    going[stuck[over]] = False
                    kept = np.flatnonzero(going)
                    word, at, node = word.take(kept), at.take(kept), node.take(kept)
                    whole, best = whole.take(kept), best.take(kept)
            ids = self._cells.take(node + (self._row - 1))
            new = np.flatnonzero(ids)
            whole[new], best[new] = at.take(new), ids.take(new) - 1
        if width > self._most:
            long = np.count_nonzero(letters, 1) > self._most
            found[long, 0], counts[long] = self._unknown, 1
        return found[np.arange(width) < counts[:, None]], counts


def _numbers(lower: bool) -> Letters:
    """A number for each character of plain words; a capital has that of its small letter where
    capitals do not matter."""
    small, large = string.digits + string.ascii_lowercase, string.ascii_uppercase
    numbers = np.full(256, ODD, np.uint8)
    numbers[0] = 0
    numbers[list(small.encode())] = np.arange(1, len(small) + 1)
    numbers[list(large.encode())] = (
        numbers[list(large.lower().encode())] if lower else len(small) + 1 + np.arange(len(large))
    )
    return numbers


def _letters(characters: npt.NDArray[Any], numbers: Letters) -> Letters:
    found = np.zeros((len(characters), characters.shape[1] + 1), np.uint8)
    found[:, :-1] = numbers[np.minimum(characters, ODD)]
    return found


def _row(numbers: Letters) -> int:
    """Cells of a node: one for each number, and one for an id."""
    return int(numbers[numbers != ODD].max()) + 2


def _tree(
    vocabulary: dict[str, int], prefix: str, numbers: Letters
) -> npt.NDArray[np.int32] | None:
    """The nodes of a tree of pieces, a row of cells for each: by letter where the row of the next
    node begins, and last the id of the piece that ends here, plus 1. None if it is too large."""
    pieces = [(_FIRST, piece, id) for piece, id in vocabulary.items()]
    pieces += [(_LATER, p[len(prefix) :], id) for _, p, id in pieces if p.startswith(prefix)]
    pieces = [(root, p, id) for root, p, id in pieces if p.isascii() and p.isalnum()]
    if numbers[ord("A")] == numbers[ord("a")]:  # then words are in small letters
        pieces = [(root, p, id) for root, p, id in pieces if p == p.lower()]
    texts = np.array([p.encode() for _, p, _ in pieces] or [b"\0"], np.bytes_)[: len(pieces)]
    letters = _letters(texts.view(np.uint8).reshape(len(texts), texts.itemsize), numbers)
    node = np.array([root for root, _, _ in pieces], np.int64)
    row, nodes = _row(numbers), _LATER + 1
    keys = []
    for depth in range(letters.shape[1]):
        longer = np.flatnonzero(letters[:, depth])
        new, which = np.unique(node[longer] * row + letters[longer, depth], return_inverse=True)
        keys.append(new)
        node[longer] = nodes + which
        nodes += len(new)
    if nodes * row > MOST_CELLS:
        return None
    cells = np.zeros(nodes * row, np.int32)
    cells[np.concatenate(keys)] = np.arange(_LATER + 1, nodes) * row
    cells[node * row + row - 1] = np.array([id + 1 for _, _, id in pieces], np.int32)
    return cells


def plain_words(rules: dict[str, Any]) -> PlainWords | None:
    """The short way for plain words, if the rules of a tokenizer (its tokenizer.json) allow it."""
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
    numbers = _numbers(lower)
    cells = _tree(model["vocab"], model["continuing_subword_prefix"], numbers)
    if cells is None:
        return None
    unknown = model["vocab"][model["unk_token"]]
    return PlainWords(numbers, cells, unknown, model["max_input_chars_per_word"])


def steps(rule: dict[str, Any] | None, inner: str) -> list[dict[str, Any]]:
    """The steps of a rule of the engine, one or several."""
    if rule is None:
        return []
    return list(rule[inner]) if rule["type"] == "Sequence" else [rule]
