"""Temperature and calibration error: by hand, and recovered from logits scaled on purpose."""

from __future__ import annotations

import numpy as np
import pytest

from tianci.metrics.calibration import (
    COLDEST,
    Bin,
    expected_calibration_error,
    fit_temperature,
    reliability,
)
from tianci.metrics.score import FloatArray


def softmax(table: FloatArray) -> FloatArray:
    powers = np.exp(table - table.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def test_temperature_by_hand() -> None:
    # right three times of four at logit 2: sigmoid(2 / T) = 3 / 4, so T = 2 / ln 3
    assert fit_temperature([2.0] * 4, [1, 1, 1, 0]) == pytest.approx(2 / np.log(3), rel=1e-4)
    # the same as two classes
    two = [[0.0, 2.0]] * 4
    assert fit_temperature(two, [1, 1, 1, 0]) == pytest.approx(2 / np.log(3), rel=1e-4)
    # and as labels that may all hold
    assert fit_temperature([[2.0, 2.0]] * 2, [[1, 1], [1, 0]]) == pytest.approx(
        2 / np.log(3), rel=1e-4
    )


def test_temperature_is_recovered() -> None:
    rng = np.random.default_rng(0)
    honest = rng.normal(0, 2, (4000, 4))
    gold = np.array([rng.choice(4, p=row) for row in softmax(honest)])
    assert fit_temperature(honest * 3, gold) == pytest.approx(3, rel=0.05)
    assert fit_temperature(honest / 2, gold) == pytest.approx(0.5, rel=0.05)
    before = expected_calibration_error(softmax(honest * 3), gold)
    assert before > 0.1 > 0.03 > expected_calibration_error(softmax(honest), gold)


def test_temperature_has_bounds() -> None:
    assert fit_temperature([5.0, -5.0], [1, 0]) == pytest.approx(COLDEST, rel=0.01)
    assert fit_temperature([], []) == 1.0


def test_calibration_error_by_hand() -> None:
    table = [[0.95, 0.05], [0.91, 0.09], [0.3, 0.7], [0.65, 0.35]]
    gold = [0, 1, 1, 0]
    # bins of a tenth: 0.95 and 0.91 (one right), 0.7 (right, and the upper end of its bin), 0.65
    # (right, in the same bin)
    assert reliability(table, gold, 10) == [
        Bin(pytest.approx(0.675), 1.0, 2),
        Bin(pytest.approx(0.93), 0.5, 2),
    ]
    assert expected_calibration_error(table, gold, 10) == pytest.approx((0.325 + 0.43) / 2)


def test_yes_or_no() -> None:
    assert expected_calibration_error([0.25] * 4, [1, 0, 0, 0]) == 0.0
    assert expected_calibration_error([[0.25, 1.0]] * 4, [[1, 1], [0, 1], [0, 1], [0, 1]]) == 0.0
    assert expected_calibration_error([0.0, 1.0], [1, 0]) == 1.0  # both ends have a bin
    assert expected_calibration_error([], []) == 0.0
