"""Entities: by hand, and equal to seqeval in both modes on tags that are wrong in every way."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import seqeval.metrics as peer
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import IOB2

from tianci.errors import UserError
from tianci.metrics.entities import entity_score, entity_scores, is_bio, repair, spans
from tianci.metrics.interval import bootstrap, bootstrap_weighted

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def random_tags(sentences: int, seed: int, tags: list[str]) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 12, sentences)
    return [[tags[one] for one in rng.integers(0, len(tags), length)] for length in lengths]


def test_spans_by_hand() -> None:
    tags = ["I-PER", "I-PER", "O", "B-LOC", "I-PER", "I-PER", "B-PER", "O", "I-LOC"]
    assert spans(tags) == [
        ("PER", 0, 2), ("LOC", 3, 4), ("PER", 4, 6), ("PER", 6, 7), ("LOC", 8, 9),
    ]  # fmt: skip
    assert spans(tags, strict=True) == [("LOC", 3, 4), ("PER", 6, 7)]
    assert spans([]) == [] and spans(["O", "O"]) == []
    assert spans(["B-work-of-art", "I-work-of-art"]) == [("work-of-art", 0, 2)]
    assert spans(["B-A", "I-A", "O", "I-A"], strict=True) == [("A", 0, 2)]  # O ends for good


@pytest.mark.parametrize(
    "tags", [TAGS, [*TAGS, "E-PER", "S-PER", "E-LOC", "S-LOC"], ["O", "B", "I"]]
)
def test_lenient_spans_equal_seqeval(tags: list[str]) -> None:
    for row in random_tags(300, 0, tags):
        assert spans(row) == [(kind, start, end + 1) for kind, start, end in get_entities(row)]


def test_repair() -> None:
    assert repair(["I-PER", "I-PER", "O", "B-LOC", "I-PER"]) == [
        "B-PER", "I-PER", "O", "B-LOC", "B-PER",
    ]  # fmt: skip
    assert repair(["S-LOC", "B-PER", "E-PER", "I"]) == ["B-LOC", "B-PER", "I-PER", "B"]
    for row in random_tags(200, 1, TAGS):
        fixed = repair(row)
        assert spans(fixed) == spans(fixed, strict=True) == spans(row)
        assert repair(fixed) == fixed


def test_scores_by_hand() -> None:
    gold = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-LOC"]]
    guess = [["B-PER", "O", "O", "B-LOC"], ["B-PER", "B-LOC"]]
    found = entity_scores(gold, guess)
    assert found["precision"] == 0.5 and found["recall"] == pytest.approx(2 / 3)
    assert found["f1"] == pytest.approx(4 / 7) and found["accuracy"] == pytest.approx(4 / 6)
    assert found["types"] == {
        "LOC": {"precision": 1.0, "recall": 1.0, "f1": 1.0, "support": 2},
        "PER": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 1},
    }


@pytest.mark.parametrize("strict", [False, True])
def test_scores_equal_seqeval(strict: bool) -> None:
    rng = np.random.default_rng(5)
    gold = random_tags(150, 2, TAGS)
    guess = [[t if rng.random() < 0.8 else TAGS[rng.integers(5)] for t in row] for row in gold]
    mode = {"mode": "strict", "scheme": IOB2} if strict else {}
    found = entity_scores(gold, guess, strict)
    assert found["precision"] == pytest.approx(peer.precision_score(gold, guess, **mode))
    assert found["recall"] == pytest.approx(peer.recall_score(gold, guess, **mode))
    assert found["f1"] == pytest.approx(peer.f1_score(gold, guess, **mode))
    assert found["accuracy"] == pytest.approx(peer.accuracy_score(gold, guess))
    report = peer.classification_report(gold, guess, output_dict=True, **mode)
    for kind, row in found["types"].items():
        theirs = report[kind]
        assert [row["precision"], row["recall"], row["f1"], row["support"]] == pytest.approx(
            [theirs["precision"], theirs["recall"], theirs["f1-score"], theirs["support"]]
        )
    assert 0.2 < found["f1"] < 0.9  # neither all nor nothing was compared


def test_nothing_found_is_zero_without_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = entity_scores([["O", "O"]], [["O", "O"]])
    assert found == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "accuracy": 1.0, "types": {}}


def test_intervals_over_sentences() -> None:
    gold, guess = random_tags(60, 6, TAGS), random_tags(60, 6, TAGS)
    for row in guess[:20]:
        row[0] = "B-LOC"

    def slow(at: np.ndarray[tuple[int], np.dtype[np.int64]]) -> dict[str, float]:
        found = entity_scores([gold[i] for i in at], [guess[i] for i in at])
        return {name: found[name] for name in ("precision", "recall", "f1", "accuracy")}

    fast = bootstrap_weighted(entity_score(gold, guess), 60, draws=30)
    for name, ends in bootstrap(slow, 60, draws=30).items():
        assert fast[name] == pytest.approx(ends)


def test_wrong_input() -> None:
    with pytest.raises(UserError, match='"E-PER" is not B-, I- or O'):
        spans(["B-PER", "E-PER"], strict=True)
    with pytest.raises(ValueError, match="shorter"):
        entity_scores([["O", "O"]], [["O"]])
    assert is_bio(TAGS) and not is_bio(["NOUN", "VERB", "O"]) and not is_bio(["O"])
