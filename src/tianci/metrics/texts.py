"""Scores of generated texts: BLEU and chrF (0 to 100), ROUGE and exact match (0 to 1)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tianci.metrics.language import language_of
from tianci.metrics.score import FloatArray, Score, of_means, value

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

References = Sequence[str | Sequence[str]]  # one or several of each row
_WORD = re.compile(r"[^\W_]+")


def text_scores(predicted: Sequence[str], gold: References) -> dict[str, float]:
    """bleu, chrf, rouge_1, rouge_2, rouge_l (F1 against the best reference) and exact_match."""
    return value(text_score(predicted, gold), len(predicted))


def text_score(predicted: Sequence[str], gold: References) -> Score:
    """What `text_scores` gives, as a function of row weights (for intervals)."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    references = [[one] if isinstance(one, str) else list(one) for one in gold]
    if len(predicted) != len(references):
        raise ValueError(f"{len(predicted)} texts for {len(references)} rows of references")
    language = language_of(text for row in references for text in row)
    by_row = of_means(_rows(predicted, references, language))
    metrics: dict[str, Metric] = {
        "bleu": BLEU(tokenize="zh" if language == "zh" else "13a"),
        "chrf": CHRF(),
    }
    counts = {name: _statistics(metric, predicted, references) for name, metric in metrics.items()}

    def weighted(weights: FloatArray) -> dict[str, FloatArray]:
        scores = {}
        for name, metric in metrics.items():
            # integers, as sacrebleu counts; a draw has each row a whole number of times
            sums = (counts[name].T @ weights).T.round().astype(np.int64).tolist()
            scores[name] = np.array([metric._compute_score_from_stats(row).score for row in sums])
        return scores | by_row(weights)

    return weighted


def rouge(predicted: str, gold: str, language: str = "en") -> dict[str, float]:
    """F1 of ROUGE-1, -2 and -L: of characters in Chinese, of lower-case words elsewhere."""
    ours, theirs = _units(predicted, language), _units(gold, language)
    scores = {f"rouge_{n}": _overlap(_grams(ours, n), _grams(theirs, n)) for n in (1, 2)}
    scores["rouge_l"] = _ratio(_common_sequence(ours, theirs), len(ours), len(theirs))
    return scores


def _rows(
    predicted: Sequence[str], references: Sequence[Sequence[str]], language: str
) -> dict[str, list[float]]:
    """What every row has on its own, each against the reference that suits it best."""
    columns: dict[str, list[float]] = {"rouge_1": [], "rouge_2": [], "rouge_l": []}
    exact = []
    for text, row in zip(predicted, references, strict=True):
        found = [rouge(text, reference, language) for reference in row]
        for name, column in columns.items():
            column.append(max((one[name] for one in found), default=0.0))
        exact.append(float(text.strip() in {reference.strip() for reference in row}))
    return columns | {"exact_match": exact}


def _statistics(
    metric: Metric, predicted: Sequence[str], references: Sequence[Sequence[str]]
) -> FloatArray:
    """Counts of each row whose sums give the score of the whole.

    The two private methods are sacrebleu's own way to its bootstrap; without them each of a
    thousand draws would cut all texts into n-grams again.
    """
    if not predicted:
        return np.zeros((0, 1))
    most = max(map(len, references))
    streams = [[row[at] if at < len(row) else None for row in references] for at in range(most)]
    found = metric._extract_corpus_statistics(list(predicted), streams)  # type: ignore[arg-type]
    return np.array(found, np.float64)


def _units(text: str, language: str) -> list[str]:
    text = text.lower()
    return [one for one in text if not one.isspace()] if language == "zh" else _WORD.findall(text)


def _grams(units: Sequence[str], size: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(units[at:] for at in range(size)), strict=False))


def _overlap(ours: Counter[tuple[str, ...]], theirs: Counter[tuple[str, ...]]) -> float:
    return _ratio((ours & theirs).total(), ours.total(), theirs.total())


def _ratio(common: int, ours: int, theirs: int) -> float:
    return 2 * common / (ours + theirs) if common else 0.0


def _common_sequence(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common subsequence; a row of the usual table is one integer, where
    a 0 bit is a step up (Hyyrö 2004)."""
    places: dict[str, int] = {}
    for at, unit in enumerate(first):
        places[unit] = places.get(unit, 0) | 1 << at
    full = (1 << len(first)) - 1
    row = full
    for unit in second:
        same = row & places.get(unit, 0)
        row = (row + same | row - same) & full
    return len(first) - row.bit_count()
