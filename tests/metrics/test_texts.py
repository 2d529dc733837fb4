"""Generated texts: ROUGE by hand, BLEU and chrF as sacrebleu gives them, also in intervals.

Outside of the tests ROUGE was compared with the package rouge-score 0.1.2 (no stemming) on 1,000
pairs of dialogsum: the largest difference is 2e-16.
"""

from __future__ import annotations

import numpy as np
import pytest
import sacrebleu

from tianci.metrics.interval import bootstrap, bootstrap_weighted
from tianci.metrics.texts import rouge, text_score, text_scores

GUESSES = ["the cat sat on the mat", "a dog barks loudly in the yard", "it is raining today ."]
GOLD = [
    ["the cat is on the mat", "there is a cat on the mat"],
    ["the dog barks in the yard"],
    ["it is raining today ."],
]


def test_rouge_by_hand() -> None:
    found = rouge("the cat sat on the mat", "The cat is on the mat.")
    # 5 of 6 words, 3 of 5 pairs (the cat, on the, the mat), in order: the cat on the mat
    assert found == pytest.approx({"rouge_1": 5 / 6, "rouge_2": 3 / 5, "rouge_l": 5 / 6})
    other = rouge("b a", "a b c")
    assert other == pytest.approx({"rouge_1": 4 / 5, "rouge_2": 0.0, "rouge_l": 2 / 5})
    zh = rouge("今天 天气好", "今天天气很好", "zh")
    # 5 of 5 and 6 characters; 今天 天天 天气 of 4 and 5 pairs
    assert zh == pytest.approx({"rouge_1": 10 / 11, "rouge_2": 6 / 9, "rouge_l": 10 / 11})
    assert rouge("", "a") == {"rouge_1": 0.0, "rouge_2": 0.0, "rouge_l": 0.0}


def test_rouge_l_equals_the_plain_table() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        a, b = (["xyzw"[i] for i in rng.integers(0, 4, rng.integers(1, 90))] for _ in "ab")
        table = np.zeros((len(a) + 1, len(b) + 1), int)
        for i, x in enumerate(a, 1):
            for j, y in enumerate(b, 1):
                best = max(table[i - 1, j], table[i, j - 1])
                table[i, j] = table[i - 1, j - 1] + 1 if x == y else best
        found = rouge(" ".join(a), " ".join(b))["rouge_l"]
        assert found == pytest.approx(2 * table[-1, -1] / (len(a) + len(b)))


def test_english_equals_sacrebleu() -> None:
    found = text_scores(GUESSES, GOLD)
    streams = [[row[0] for row in GOLD], [GOLD[0][1], None, None]]
    assert found["bleu"] == pytest.approx(sacrebleu.corpus_bleu(GUESSES, streams).score)
    assert found["chrf"] == pytest.approx(sacrebleu.corpus_chrf(GUESSES, streams).score)
    assert 20 < found["bleu"] < 90
    assert found["exact_match"] == pytest.approx(1 / 3)
    # the second reference of the first row has 4 of its 7 words only: the first counts
    assert found["rouge_1"] == pytest.approx((5 / 6 + 2 * 5 / 13 + 1) / 3)


def test_chinese_is_cut_into_characters() -> None:
    guesses, gold = ["今天天气很好，我们去公园。"], ["今天天气很好，我们去了公园。"]
    found = text_scores(guesses, gold)
    assert found["bleu"] == pytest.approx(
        sacrebleu.corpus_bleu(guesses, [gold], tokenize="zh").score
    )
    assert found["bleu"] > 60  # as one word it would be about 0
    assert found["rouge_l"] == pytest.approx(26 / 27)


def test_intervals_equal_scoring_each_draw() -> None:
    guesses, gold = GUESSES * 4, GOLD * 4
    guesses[5] = "something else entirely is written here"

    def slow(at: np.ndarray[tuple[int], np.dtype[np.int64]]) -> dict[str, float]:
        return text_scores([guesses[i] for i in at], [gold[i] for i in at])

    fast = bootstrap_weighted(text_score(guesses, gold), 12, draws=20)
    for name, ends in bootstrap(slow, 12, draws=20).items():
        assert fast[name] == pytest.approx(ends), name


def test_shapes() -> None:
    assert text_scores([], []) == {}
    with pytest.raises(ValueError, match="1 texts for 2 rows"):
        text_scores(["a"], ["a", "b"])
