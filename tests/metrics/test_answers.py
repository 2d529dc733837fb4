"""Answers: the rules of SQuAD 2 and of CMRC 2018, by hand.

Outside of the tests, ports of both official scripts to Python 3 (the Chinese one with nltk's
tokenizer) scored 8,241 questions of cmrc2018, xquad, bipar and squad2_half with cut, shifted and
wrong answers: no row differs.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from tianci.errors import UserError
from tianci.metrics.answers import (
    answer_score,
    answer_scores,
    best_no_answer_threshold,
    score_rows,
    segments,
)
from tianci.metrics.interval import bootstrap_weighted


def scores(guess: str, gold: list[str], language: str) -> tuple[float, float]:
    found = score_rows([guess], [gold], language)
    return float(found.em[0]), round(float(found.f1[0]), 12)


def test_english_by_hand() -> None:
    assert scores("The Eiffel-Tower!", ["eiffeltower"], "en") == (1.0, 1.0)
    assert scores("an  apple", ["Apple."], "en") == (1.0, 1.0)
    # two of three words, two of two
    assert scores("in Paris, France", ["Paris France"], "en") == (0.0, 0.8)
    assert scores("France Paris", ["Paris France"], "en") == (0.0, 1.0)  # order does not matter
    assert scores("to to", ["to be"], "en") == (0.0, 0.5)  # a word counts as often as both have it
    assert scores("London", ["Paris", "London, UK"], "en") == (0.0, pytest.approx(2 / 3))
    assert scores("thean", ["thean"], "en") == (1.0, 1.0)  # articles are words


def test_chinese_by_hand() -> None:
    assert scores("《红楼梦》。", ["红楼梦"], "zh") == (1.0, 1.0)
    # the longest common run is 年北京 of 5 and 4 pieces (1998 is one)
    assert scores("1998年北京市", ["在年北京"], "zh") == (0.0, pytest.approx(6 / 9))
    # 北京 and 天津 are both there, but not in one run
    assert scores("北京天津", ["天津北京"], "zh") == (0.0, 0.5)
    assert scores("BERT模型", ["bert 模型"], "zh") == (
        0.0,
        1.0,
    )  # EM keeps the blank, as officially
    assert scores("", ["北京"], "zh") == (0.0, 0.0)


def test_segments_follow_the_treebank() -> None:
    assert segments("约1,234.5米，即3.5%(abc)") == [
        "约", "1,234.5", "米", "即", "3.5", "%", "(", "abc", ")",
    ]  # fmt: skip
    assert segments('他说"yes"') == ["他", "说", "``", "yes", "''"]
    assert segments("It's J. K. Rowling.") == ["it", "'s", "j.", "k.", "rowling", "."]
    assert segments("rock'n'roll, 1990...") == ["rock'n'roll", ",", "1990", "..."]


def test_no_answer() -> None:
    gold: list[list[str]] = [["Paris"], [], [""], ["Rome", "Roma"]]
    found = answer_scores(["paris", "", "something", ""], gold, "en")
    assert found == {
        "em": 0.5, "f1": 0.5, "has_answer_em": 0.5, "has_answer_f1": 0.5, "no_answer_accuracy": 0.5,
    }  # fmt: skip
    assert set(answer_scores(["a b"], [["b c"]])) == {"em", "f1"}
    assert answer_scores(["", "天"], [[], ["天"]], "zh")["no_answer_accuracy"] == 1.0


def test_language_is_that_of_the_set() -> None:
    gold = [["北京大学"], ["NBA"], ["1998年"]]
    # in English rules the characters of one word would all be lost
    assert answer_scores(["北京", "nba", "1998"], gold)["f1"] == pytest.approx(
        (2 / 3 + 1 + 2 / 3) / 3
    )
    assert answer_scores(["北京", "nba", "1998"], gold, "en")["f1"] == pytest.approx(1 / 3)
    with pytest.raises(UserError, match='unknown language of answers "fr"'):
        answer_scores(["a"], [["a"]], "fr")


def test_by_id() -> None:
    gold = {"q1": ["a house"], "q2": ["two"]}
    assert answer_scores({"q2": "three", "q1": "house", "q3": "x"}, gold)["em"] == 0.5
    with pytest.raises(UserError, match='no prediction for 1 of 2 questions, the first is "q2"'):
        answer_scores({"q1": "house"}, gold)
    with pytest.raises(ValueError, match="1 predictions for 2"):
        answer_scores(["a"], [["a"], ["b"]])


def test_no_answer_threshold_by_hand() -> None:
    doubt = [0.1, 0.4, 0.5, 0.9]
    earned, there = [1.0, 0.0, 0.5, 0.0], [True, False, True, False]
    # none: 2; 0.1: 3; 0.4: 2; 0.5: 2.5; 0.9: 1.5
    assert best_no_answer_threshold(doubt, earned, there) == (0.1, 0.75)
    # equal doubts are answered together, or not at all: none 1, both 1
    low, best = best_no_answer_threshold([0.3, 0.3], [1.0, 0.0], [True, False])
    assert low < 0.3 and best == 0.5
    # always answer, never answer
    assert best_no_answer_threshold([1.0, 2.0], [0.5, 1.0], [True, True]) == (2.0, 0.75)
    assert best_no_answer_threshold([1.0, 2.0], [0.0, 0.0], [False, False])[0] < 1.0


def test_no_answer_threshold_equals_trying_all() -> None:
    rng = np.random.default_rng(0)
    there = rng.random(60) < 0.5
    doubt = (rng.normal(0, 1, 60) + ~there).round(1)
    # some rows without an answer have an empty best span, which is right
    earned = np.where(there, rng.random(60), rng.random(60) < 0.2)

    def result(threshold: float) -> float:
        return float(np.where(doubt <= threshold, earned, ~there).mean())

    threshold, best = best_no_answer_threshold(doubt, earned, there)
    assert best == pytest.approx(max(map(result, [-9, *doubt])))
    assert result(threshold) == pytest.approx(best)
    assert 10 < (doubt <= threshold).sum() < 50 and (~there)[doubt <= threshold].sum() > 2


def test_gold_answers_score_one(shared_data: Path) -> None:
    for name in ("cmrc2018/dev", "squad2_half/dev"):
        data = json.loads(gzip.decompress((shared_data / f"{name}.json.gz").read_bytes()))["data"]
        gold = {
            question["id"]: [answer["text"] for answer in question["answers"]]
            for article in data
            for paragraph in article["paragraphs"]
            for question in paragraph["qas"]
        }
        first = {name: (answers or [""])[0] for name, answers in gold.items()}
        assert set(answer_scores(first, gold).values()) == {1.0}
        rows = score_rows({name: text[:-1] for name, text in first.items()}, gold)
        low, high = bootstrap_weighted(answer_score(rows), len(gold), draws=100)["f1"]
        assert low < rows.f1.mean() < high < 1.0
