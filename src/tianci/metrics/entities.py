"""Scores of entities in tagged words, equal to seqeval's (conlleval's) in both of its modes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tianci.errors import UserError
from tianci.metrics.score import FloatArray, Score, divide, f_score, value

Span = tuple[str, int, int]  # type, first word, one after the last word
_NO_TYPE = "_"  # of the bare tags B and I, as seqeval calls it


def is_bio(labels: Iterable[str]) -> bool:
    """Whether labels are O, B-..., I-... (or E-, S-) and so mark entities, unlike parts of
    speech."""
    known = set(labels)
    return all(tag == "O" or tag[:2] in ("B-", "I-", "E-", "S-") for tag in known) and any(
        tag != "O" for tag in known
    )


def spans(tags: Sequence[str], strict: bool = False) -> list[Span]:
    """The entities of one sentence; if not strict, I- after O or another type begins one."""
    return _strict_spans(tags) if strict else _lenient_spans(tags)


def repair(tags: Sequence[str]) -> list[str]:
    """Valid BIO tags of the same entities that `spans` finds: B- first, then I-."""
    fixed = ["O"] * len(tags)
    for kind, start, end in _lenient_spans(tags):
        suffix = "" if kind == _NO_TYPE else f"-{kind}"
        fixed[start:end] = [f"B{suffix}"] + [f"I{suffix}"] * (end - start - 1)
    return fixed


def entity_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], strict: bool = False
) -> dict[str, Any]:
    """precision, recall, f1 of entities, accuracy of tags, and `types` with a row for each."""
    right: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    there: Counter[str] = Counter()
    for truth, guess in zip(gold, predicted, strict=True):
        ours, theirs = set(spans(guess, strict)), set(spans(truth, strict))
        right.update(kind for kind, _, _ in ours & theirs)
        taken.update(kind for kind, _, _ in ours)
        there.update(kind for kind, _, _ in theirs)
    kinds = sorted(taken.keys() | there.keys())
    counts = np.array([[right[kind], taken[kind], there[kind]] for kind in kinds], np.float64)
    types = {
        kind: {
            **{name: float(found) for name, found in _scores(row).items()},
            "support": int(row[2]),
        }
        for kind, row in zip(kinds, counts, strict=True)
    }
    return {**value(entity_score(gold, predicted, strict), len(gold)), "types": types}


def entity_score(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], strict: bool = False
) -> Score:
    """precision, recall, f1 and accuracy as a function of the weights of sentences."""
    table = np.array(
        [_counts(*pair, strict) for pair in zip(gold, predicted, strict=True)], np.float64
    ).reshape(-1, 5)

    def weighted(weights: FloatArray) -> dict[str, FloatArray]:
        total = table.T @ weights
        return {**_scores(total[:3]), "accuracy": divide(total[3], total[4], np.nan)}

    return weighted


def _counts(gold: Sequence[str], predicted: Sequence[str], strict: bool) -> tuple[int, ...]:
    """Entities right, predicted, there; tags right, tags: sums of these make all scores."""
    ours, theirs = set(spans(predicted, strict)), set(spans(gold, strict))
    same = sum(one == other for one, other in zip(gold, predicted, strict=True))
    return len(ours & theirs), len(ours), len(theirs), same, len(gold)


def _scores(counts: FloatArray) -> dict[str, FloatArray]:
    right, taken, there = counts
    return {
        "precision": divide(right, taken),
        "recall": divide(right, there),
        "f1": f_score(right, taken, there),
    }


def _split(tag: str) -> tuple[str, str]:
    """B, I, O, ... and the type."""
    return tag[0], tag[2:] or _NO_TYPE


def _lenient_spans(tags: Sequence[str]) -> list[Span]:
    found: list[Span] = []
    start, last, last_kind = 0, "O", _NO_TYPE
    for at, (mark, kind) in enumerate(map(_split, [*tags, "O"])):
        changes = kind != last_kind
        if last in "ES" or (last in "BI" and mark in "BSO") or (last != "O" and changes):
            found.append((last_kind, start, at))
        if mark in "BS" or (mark in "IE" and last in "OES") or (mark != "O" and changes):
            start = at
        last, last_kind = mark, kind
    return found


def _strict_spans(tags: Sequence[str]) -> list[Span]:
    """IOB2: what does not begin with B- is no entity."""
    found: list[Span] = []
    inside: str | None = None
    for at, (mark, kind) in enumerate(map(_split, tags)):
        if mark not in "BIO":
            raise UserError(
                f'the tag "{tags[at]}" is not B-, I- or O; strict scores know only these'
            )
        if mark == "B":
            found.append((kind, at, at + 1))
            inside = kind
        elif mark == "I" and inside == kind:
            found[-1] = (kind, found[-1][1], at + 1)
        else:
            inside = None
    return found
