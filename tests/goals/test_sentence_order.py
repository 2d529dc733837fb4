"""Sentence order: neighbours of one document, half of them swapped."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.goals.tiny import Dice, store
from tianci.data.memory import MemoryStore
from tianci.errors import UserError
from tianci.goals.objectives.segments import Example
from tianci.goals.objectives.sentence_order import IN_ORDER, SWAPPED, SentenceOrder


def test_by_hand() -> None:
    # sentences 0-4, 4-8, 8-12, 12-17; room for 8
    documents = MemoryStore([[[1] * 4, [1] * 4, [1] * 4, [1] * 5]])
    dice = Dice(
        *(0.5, 1, 0.7),  # full length, split behind sentence 0, in order
        *(0.5, 3, [0.3], 0.2),  # split behind sentence 2; one token too many; swapped
    )
    assert list(SentenceOrder().cut(documents, 0, 8, 0.0, dice)) == [  # type: ignore[arg-type]
        Example((0, 4), (4, 8), IN_ORDER),
        Example((13, 17), (8, 12), SWAPPED),
    ]


def test_properties() -> None:
    documents, goal, rng = store(seed=7, documents=60), SentenceOrder(), np.random.default_rng(0)
    labels: list[int] = []
    for _ in range(8):
        for number in range(documents.count()):
            borders = documents.sentences(number)
            for a, b, label, *_ in goal.cut(documents, number, 40, 0.1, rng):
                assert b is not None
                first, second = (b, a) if label == SWAPPED else (a, b)
                assert borders[0] <= first[0] < first[1] <= second[0] < second[1] <= borders[-1]
                size = (a[1] - a[0]) + (b[1] - b[0])
                assert size <= 40 and (size == 40 or first[1] == second[0])
                labels.append(label)
    assert abs(np.mean(labels) - 0.5) < 4 * math.sqrt(0.25 / len(labels))


def test_share_is_a_setting() -> None:
    documents, rng = store(seed=8), np.random.default_rng(1)
    for share, expected in ((0.0, {IN_ORDER}), (1.0, {SWAPPED})):
        labels = {e.label for e in SentenceOrder(swapped=share).cut(documents, 2, 40, 0.0, rng)}
        assert labels == expected


@pytest.mark.parametrize("share", [-0.1, 1.5, math.nan])
def test_a_share_lies_between_0_and_1(share: float) -> None:
    with pytest.raises(UserError, match=f"is {share}, but is a share"):
        SentenceOrder(swapped=share)
