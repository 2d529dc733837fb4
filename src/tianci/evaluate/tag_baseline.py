"""What a linear tagger reaches with the same labels: a word, its neighbours and its looks.

T words of all sentences, F features of each; no decision knows another one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from tianci.metrics.entities import is_bio, repair

Hashes = npt.NDArray[np.uint64]

COLUMNS = 1 << 20  # features are hashed into so many
REACH = 2  # neighbours on each side
_PRIMES = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)

# what may be known of a word: itself, how it begins and ends, and its shape (Bob-7 -> Xx-0)
LOOKS: tuple[Callable[[str], str], ...] = (
    lambda word: word,
    lambda word: word.lower(),
    lambda word: word[:3].lower(),
    lambda word: word[-3:].lower(),
    lambda word: _SHAPE.sub(r"\1", re.sub(r"\d", "0", re.sub(r"[^\W\d_]", _letter, word))),
)
_SHAPE = re.compile(r"(.)\1+")
# (look, places from here): each is one feature of each word
WINDOWS = (
    *((0, (at,)) for at in range(-REACH, REACH + 1)),
    *((0, pair) for pair in ((-1, 0), (0, 1), (-1, 1), (-2, -1), (1, 2))),
    (0, (-1, 0, 1)),
    *((look, (0,)) for look in (1, 2, 3, 4)),
    *((4, (at,)) for at in (-1, 1)),
)


def _letter(found: re.Match[str]) -> str:
    return "X" if found.group().isupper() else "x"


@dataclass(frozen=True)
class TagBaseline:
    """A fitted linear tagger."""

    model: Any
    names: list[str]

    def tags(self, words: Sequence[Sequence[str]]) -> list[list[str]]:
        """A tag for each word of each sentence; valid BIO where the labels mark entities."""
        lengths = [len(sentence) for sentence in words]
        if not sum(lengths):
            return [[] for _ in words]
        chosen = self.model(_features(words))
        flat = [self.names[one] for one in chosen.tolist()]
        ends = np.cumsum(lengths).tolist()
        rows = [flat[end - length : end] for end, length in zip(ends, lengths, strict=True)]
        return [repair(row) for row in rows] if is_bio(self.names) else rows


def fit_tag_baseline(
    words: Sequence[Sequence[str]], tags: Sequence[Sequence[str]], seed: int = 0
) -> TagBaseline:
    """A tagger by logistic regression on hashed features of each word and its neighbours."""
    from sklearn.linear_model import SGDClassifier

    names = sorted({tag for sentence in tags for tag in sentence})
    number = {name: at for at, name in enumerate(names)}
    labels = np.array([number[tag] for sentence in tags for tag in sentence], np.int64)
    if len(names) < 2:
        return TagBaseline(lambda rows: np.zeros(rows.shape[0], np.int64), names)
    model = SGDClassifier(
        loss="log_loss", alpha=ALPHA, max_iter=EPOCHS, tol=None, random_state=seed, average=AVERAGE
    )
    return TagBaseline(model.fit(_features(words), labels).predict, names)


import os

ALPHA = float(os.environ.get("ALPHA", "1e-6"))
EPOCHS = int(os.environ.get("EPOCHS", "5"))
AVERAGE = os.environ.get("AVG") == "1"


def _features(words: Sequence[Sequence[str]]) -> Any:
    """A row per word with ones at its features, (T, COLUMNS)."""
    from scipy.sparse import csr_matrix

    # sentences one after the other, with room between them that nothing looks beyond
    gap = [""] * REACH
    padded = [word for sentence in words for word in (*sentence, *gap)]
    real = np.array([True] * 0 + [x for s in words for x in [True] * len(s) + [False] * REACH])
    places = np.flatnonzero(real) + REACH
    kinds = {word: at for at, word in enumerate(dict.fromkeys(padded))}
    ids = np.array([kinds[word] for word in (*gap, *padded)], np.int64)
    looks = [_hashes([look(word) for word in kinds])[ids] for look in LOOKS]
    found = np.empty((len(places), len(WINDOWS)), np.int32)
    for column, (look, window) in enumerate(WINDOWS):
        mixed = np.full(len(places), column + 1, np.uint64) * _PRIMES[2]
        for at, shift in enumerate(window):
            mixed ^= looks[look][places + shift] * (_PRIMES[at] + np.uint64(2 * column))
            mixed ^= mixed >> np.uint64(29)
        found[:, column] = (mixed * _PRIMES[1]) >> np.uint64(44)
    rows = np.arange(len(places) + 1) * len(WINDOWS)
    ones = np.ones(found.size, np.float32)
    return csr_matrix((ones, found.ravel(), rows), (len(places), COLUMNS))


def _hashes(words: list[str]) -> Hashes:
    return np.array([crc32(word.encode("utf-8", "surrogatepass")) for word in words], np.uint64)
