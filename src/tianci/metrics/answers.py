"""Exact match and F1 of answers: SQuAD 2's rules for words, CMRC 2018's for Chinese.

A question without gold answers (or with empty ones) has no answer in its text; the right prediction
is then the empty string. All scores are between 0 and 1.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tianci.errors import UserError, unknown
from tianci.metrics.language import language_of
from tianci.metrics.score import Score, of_means, value

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
# what the official script of CMRC 2018 removes (it also lists ……, which no single character is)
_CMRC_REMOVED = str.maketrans("", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
_CMRC_CHINESE = re.compile("([\u4e00-\u9fa5])")

# Between Chinese characters the script uses nltk.word_tokenize. These are its rules as far as the
# answers of cmrc2018, xquad and bipar need them: 9,071 of their 9,075 pieces come out the same.
_ALONE = r";@#$%&?!*()\[\]{}<>«»„“‘”’‒-―\"'"
_CLITIC = r"'(?:s|m|d|ll|re|ve)(?!\w)"
_LAST_DOT = r"\.(?=[\])}>\"']*\s*$)"
_PIECE = re.compile(
    rf"\.{{2,}}|{_CLITIC}|[{_ALONE}]|,(?!\d)|{_LAST_DOT}"
    rf"|(?:[^\s,.{_ALONE}]|,(?=\d)|(?!{_LAST_DOT})(?<!\.)\.(?!\.)|(?<=\w)(?!{_CLITIC})'(?=\w))+"
)


class Rows(NamedTuple):
    """Scores of each question, and whether it has an answer."""

    em: npt.NDArray[np.float64]
    f1: npt.NDArray[np.float64]
    has_answer: npt.NDArray[np.bool_]


def answer_scores(
    predicted: Mapping[str, str] | Sequence[str],
    gold: Mapping[str, Sequence[str]] | Sequence[Sequence[str]],
    language: str = "auto",
) -> dict[str, float]:
    """em and f1; where some questions have no answer also has_answer_em, has_answer_f1 and
    no_answer_accuracy."""
    return value(answer_score(score_rows(predicted, gold, language)), len(gold))


def answer_score(rows: Rows) -> Score:
    """What `answer_scores` gives, as a function of row weights (for intervals)."""
    em, f1, there = rows
    columns = {"em": em, "f1": f1}
    if not there.all():
        columns["has_answer_em"] = np.where(there, em, np.nan)
        columns["has_answer_f1"] = np.where(there, f1, np.nan)
        columns["no_answer_accuracy"] = np.where(there, np.nan, em)
    return of_means(columns)


def score_rows(
    predicted: Mapping[str, str] | Sequence[str],
    gold: Mapping[str, Sequence[str]] | Sequence[Sequence[str]],
    language: str = "auto",
) -> Rows:
    """em and f1 of each question against its best gold answer, in the order of gold."""
    guesses, truths = _aligned(predicted, gold)
    known = {"en": (_english_em, _english_f1), "zh": (_chinese_em, _chinese_f1)}
    if language == "auto":
        language = language_of(answer for answers in truths for answer in answers)
    if language not in known:
        raise unknown("language of answers", language, [*known, "auto"])
    exact, overlap = known[language]
    # an answer that is nothing but articles or punctuation is no answer, as in SQuAD's script
    blank = _english if language == "en" else _chinese
    kept = [[answer for answer in answers if blank(answer)] for answers in truths]
    pairs = [(guess, answers or [""]) for guess, answers in zip(guesses, kept, strict=True)]
    em = [max(exact(guess, answer) for answer in answers) for guess, answers in pairs]
    f1 = [max(overlap(guess, answer) for answer in answers) for guess, answers in pairs]
    return Rows(np.array(em, float), np.array(f1, float), np.array(list(map(bool, kept)), bool))


def best_no_answer_threshold(
    no_answer: npt.ArrayLike, score: npt.ArrayLike, has_answer: npt.ArrayLike
) -> tuple[float, float]:
    """Answer where the no-answer score is at most the first number; the second is what that gives.

    `score` is what answering would earn: em or f1 of each best span, 0 where there is no answer.
    """
    doubt, earned = np.asarray(no_answer, np.float64), np.asarray(score, np.float64)
    there = np.asarray(has_answer, bool)
    if len(doubt) == 0:
        return 0.0, 0.0
    order = np.argsort(doubt, kind="stable")
    # from "nothing is answered" on, each further answer earns its score or spoils a right silence
    gain = np.where(there, earned, earned - 1.0)[order]
    totals = np.concatenate([[0.0], np.cumsum(gain)]) + (~there).sum()
    doubts = doubt[order]
    starts = np.append(doubts[1:] != doubts[:-1], True)  # equal doubts are answered together
    allowed = np.flatnonzero(np.concatenate([[True], starts]))
    best = int(allowed[totals[allowed].argmax()])
    threshold = np.nextafter(doubts[0], -np.inf) if best == 0 else doubts[best - 1]
    return float(threshold), float(totals[best] / len(doubt))


def _aligned(
    predicted: Mapping[str, str] | Sequence[str],
    gold: Mapping[str, Sequence[str]] | Sequence[Sequence[str]],
) -> tuple[list[str], list[Sequence[str]]]:
    if isinstance(predicted, Mapping) and isinstance(gold, Mapping):
        missing = [name for name in gold if name not in predicted]
        if missing:
            raise UserError(
                f"no prediction for {len(missing)} of {len(gold)} questions, the first is "
                f'"{missing[0]}"; give "" where there is no answer'
            )
        return [predicted[name] for name in gold], list(gold.values())
    if isinstance(predicted, Mapping) or isinstance(gold, Mapping):
        raise ValueError("predictions and gold answers must both be lists or both have ids")
    if len(predicted) != len(gold):
        raise ValueError(f"{len(predicted)} predictions for {len(gold)} questions")
    return list(predicted), list(gold)


def _english(text: str) -> list[str]:
    """Words without case, punctuation and articles."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def _english_em(guess: str, answer: str) -> float:
    return float(_english(guess) == _english(answer))


def _english_f1(guess: str, answer: str) -> float:
    ours, theirs = _english(guess), _english(answer)
    if not ours or not theirs:
        return float(ours == theirs)
    return 2 * (Counter(ours) & Counter(theirs)).total() / (len(ours) + len(theirs))


def _chinese(text: str) -> str:
    return text.lower().strip().translate(_CMRC_REMOVED)


def _chinese_em(guess: str, answer: str) -> float:
    return float(_chinese(guess) == _chinese(answer))


def _chinese_f1(guess: str, answer: str) -> float:
    """By the longest run of pieces that both have: common words elsewhere do not count."""
    ours, theirs = segments(guess), segments(answer)
    if not ours or not theirs:
        return float(ours == theirs)
    return 2 * _longest_run(ours, theirs) / (len(ours) + len(theirs))


def segments(text: str) -> list[str]:
    """Chinese characters one by one, what is between them as words; without punctuation."""
    pieces: list[str] = []
    for part in _CMRC_CHINESE.split(_chinese(text)):
        for found in _PIECE.finditer(part):
            piece = found.group()
            if piece == '"':  # nltk writes opening and closing quotes differently
                before = part[: found.start()][-1:]
                piece = "``" if before in ("", " ", "(", "[", "{", "<") else "''"
            pieces.append(piece)
    return pieces


def _longest_run(first: Sequence[str], second: Sequence[str]) -> int:
    if first == second:
        return len(first)
    longest, above = 0, [0] * (len(second) + 1)
    for piece in first:
        row = [0] * (len(second) + 1)
        for at, other in enumerate(second, 1):
            if piece == other:
                row[at] = above[at - 1] + 1
        longest, above = max(longest, *row), row
    return longest
