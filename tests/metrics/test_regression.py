"""Scores of numbers: by hand, equal to scipy's, and 0 for constants without a warning."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import stats

from tianci.metrics.regression import number_score, numbers


def test_by_hand() -> None:
    found = numbers([1, 2, 3, 4], [1, 2, 3, 8])
    # deviations -1.5 -.5 .5 1.5 and -2.5 -1.5 -.5 4.5: 11 / sqrt(5 * 29)
    assert found["pearson"] == pytest.approx(11 / np.sqrt(145))
    assert found["spearman"] == pytest.approx(1.0)
    assert found["mae"] == 1.0 and found["rmse"] == 2.0


def test_equals_scipy_with_ties_and_repeated_rows() -> None:
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 6, 200).astype(float)
    guess = (gold + rng.normal(0, 2, 200)).round()
    drawn = rng.integers(0, 200, (200, 3))
    weights = np.stack([np.bincount(column, minlength=200) for column in drawn.T], 1).astype(float)
    found = number_score(gold, guess)(weights)
    for at, rows in enumerate(drawn.T):
        assert found["pearson"][at] == pytest.approx(stats.pearsonr(gold[rows], guess[rows])[0])
        assert found["spearman"][at] == pytest.approx(stats.spearmanr(gold[rows], guess[rows])[0])
        assert found["mae"][at] == pytest.approx(np.abs(gold - guess)[rows].mean())


@pytest.mark.parametrize("constant", [0.0, 3.7, 1e6 / 3])
def test_constants_give_zero(constant: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = numbers([1.0, 2.5, 3.0], [constant] * 3)
    assert found["pearson"] == 0.0 and found["spearman"] == 0.0


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"gold \(2,\), predicted \(3,\)"):
        numbers([1, 2], [1, 2, 3])
