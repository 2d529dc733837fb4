from __future__ import annotations

import math

import numpy as np
import pytest

from tianci.data.statistics import bars, cross_entropies


def test_entropies_by_hand() -> None:
    """Learned from the sentences "0 1" and "0 2" of a vocabulary of 4; measured on "0 3"."""
    mark = 4
    learn = [np.array([mark, 0, 1, mark, 0, 2, mark])]
    measure = [np.array([mark, 0, 3, mark])]
    # 4 tokens, 3 different: p(0) = (2 + 3/4) / 7, p(3) = (3/4) / 7
    p0, p3 = 2.75 / 7, 0.75 / 7
    # after the mark: 2 times 0, 1 different; after 0: 1 and 2, two different
    p0_start, p3_after_0 = (2 + 1 * p0) / 3, (0 + 2 * p3) / 4
    unigram, bigram = cross_entropies(learn, measure, 4)
    assert unigram == pytest.approx(-(math.log(p0) + math.log(p3)) / 2)
    assert bigram == pytest.approx(-(math.log(p0_start) + math.log(p3_after_0)) / 2)


def test_after_a_token_never_seen_only_frequencies_help() -> None:
    unigram, bigram = cross_entropies([np.array([3, 0, 1, 3])], [np.array([3, 2, 0, 3])], 3)
    p0, p2 = (1 + 2 / 3) / 4, (2 / 3) / 4
    start = (0 + 1 * p2) / 2
    assert bigram == pytest.approx(-(math.log(start) + math.log(p0)) / 2)
    assert unigram == pytest.approx(-(math.log(p2) + math.log(p0)) / 2)


@pytest.mark.parametrize("vocabulary", [50, 70_000])
def test_probabilities_sum_to_one(vocabulary: int) -> None:
    rng = np.random.default_rng(0)
    row = rng.integers(0, 20, 500)
    row[::7] = vocabulary
    losses = []
    for token in range(50):
        unigram, _ = cross_entropies([row], [np.array([vocabulary, token])], vocabulary)
        losses.append(unigram)
    seen = np.unique(row[row != vocabulary]).size
    rest = (vocabulary - 50) * (seen / vocabulary) / ((row != vocabulary).sum() + seen)
    assert sum(math.exp(-loss) for loss in losses) + rest == pytest.approx(1)


def test_a_model_with_nothing_to_learn_from_is_uniform() -> None:
    nothing = [np.array([8])]
    assert cross_entropies(nothing, [np.array([8, 1, 2])], 8) == pytest.approx((math.log(8),) * 2)


def test_bars() -> None:
    lines = bars([0, 2, 0, 1, 0], width=4)
    assert [line.split() for line in lines] == [
        ["2-3", "████", "2", "66.7%"],
        ["4-7", "0", "0.0%"],
        ["8-15", "██", "1", "33.3%"],
    ]
    assert bars([0, 0]) == []
