"""Suites of sentence pairs: a model is right where it finds the good one more likely."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from zlib import crc32

import numpy as np

from tianci.errors import UserError, unknown
from tianci.text.source import read_lines
from tianci.train.audit import wilson

USUAL = 1.96  # standard deviations of the intervals: 95 %


class Pair(NamedTuple):
    """Two sentences that differ in little, and what the difference is about."""

    good: str
    bad: str
    paradigm: str
    phenomenon: str


class Scorer(Protocol):
    """Whatever can say how likely texts are."""

    def scores(self, texts: Iterable[str], whole_words: bool = False) -> Iterator[dict[str, Any]]:
        """`score` and `mean` of each text, in order."""


def minimal_pairs(row: Mapping[str, Any]) -> Pair | None:
    """BLiMP and SLING: good, bad, paradigm, phenomenon."""
    paradigm = str(row.get("paradigm", "all"))
    return Pair(row["good"], row["bad"], paradigm, str(row.get("phenomenon", paradigm)))


def spelling(row: Mapping[str, Any]) -> Pair | None:
    """Chinese spelling errors: wrong, correct; rows without an error are no pair."""
    if row["wrong"] == row["correct"]:
        return None
    errors = len(row.get("wrong_ids") or [0])
    name = "1 error" if errors == 1 else "2 errors" if errors == 2 else "3 errors or more"
    return Pair(row["correct"], row["wrong"], "spelling", name)


SUITES: dict[str, Callable[[Mapping[str, Any]], Pair | None]] = {
    "blimp": minimal_pairs,
    "sling": minimal_pairs,
    "csc": spelling,
}


def read_pairs(suite: str, path: str | Path) -> list[Pair]:
    """The pairs of a suite, from its JSONL file or from the directory with its test file."""
    if suite not in SUITES:
        raise unknown("suite", suite, SUITES)
    file = _file(Path(path))
    pairs: list[Pair] = []
    for number, line in read_lines(file):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            pair = SUITES[suite](row)
        except json.JSONDecodeError as error:
            raise UserError(f"{file}, line {number}: not JSON ({error.msg})") from error
        except (KeyError, TypeError) as error:
            raise UserError(f"{file}, line {number}: {suite} needs {error}") from error
        if pair is not None:
            pairs.append(pair)
    if not pairs:
        raise UserError(f"{file} has no pairs of different sentences")
    return pairs


def _file(path: Path) -> Path:
    if not path.is_dir():
        return path
    for name in ("test.jsonl", "test.jsonl.gz"):
        if (path / name).is_file():
            return path / name
    raise UserError(f"{path} has no test.jsonl (or .gz); give the file itself")


def sample(pairs: list[Pair], limit: int | None) -> list[Pair]:
    """At most `limit` pairs of each paradigm, always the same ones, in their order."""
    if limit is None:
        return pairs
    places: dict[str, list[int]] = {}
    for place, pair in enumerate(pairs):
        places.setdefault(pair.paradigm, []).append(place)
    kept: list[int] = []
    for name, numbers in places.items():
        rng = np.random.default_rng(crc32(name.encode()))
        kept += [numbers[i] for i in rng.permutation(len(numbers))[:limit].tolist()]
    return [pairs[place] for place in sorted(kept)]


def evaluate_suite(
    scorer: Scorer,
    suite: str,
    path: str | Path,
    limit: int | None = None,
    whole_words: bool = False,
    progress: Callable[[Iterable[str], int], Iterable[str]] = lambda texts, total: texts,
) -> dict[str, Any]:
    """Accuracy of preferring the good one: in all, by phenomenon and by paradigm.

    Equal scores are not right; they are counted in `ties`. Sentences of different length may be
    compared fairly or not by their sum, so `accuracy_by_mean` uses the mean per token.
    """
    pairs = sample(read_pairs(suite, path), limit)
    texts = [text for pair in pairs for text in (pair.good, pair.bad)]
    found = list(scorer.scores(progress(texts, len(texts)), whole_words))
    good, bad = found[0::2], found[1::2]
    right = np.array([g["score"] > b["score"] for g, b in zip(good, bad, strict=True)])
    by_mean = np.array([g["mean"] > b["mean"] for g, b in zip(good, bad, strict=True)])
    ties = sum(g["score"] == b["score"] for g, b in zip(good, bad, strict=True))
    paradigms = _by([pair.paradigm for pair in pairs], right)
    return {
        "suite": suite,
        **_accuracy(right),
        "accuracy_by_mean": float(by_mean.mean()),
        "mean_of_paradigms": float(np.mean([row["accuracy"] for row in paradigms.values()])),
        "ties": ties,
        "phenomena": _by([pair.phenomenon for pair in pairs], right),
        "paradigms": paradigms,
    }


def _accuracy(right: np.ndarray[Any, np.dtype[np.bool_]]) -> dict[str, Any]:
    """The share that is right, with its 95 % interval."""
    low, high = wilson(int(right.sum()), len(right), USUAL)
    return {"accuracy": float(right.mean()), "low": low, "high": high, "count": len(right)}


def _by(names: list[str], right: np.ndarray[Any, np.dtype[np.bool_]]) -> dict[str, Any]:
    of = np.array(names)
    return {name: _accuracy(right[of == name]) for name in dict.fromkeys(names)}
