"""Next sentence: half of the pairs are neighbours, the others come from another document."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tests.goals.tiny import Dice, store
from tests.parity.family import loud
from tianci import checkpoint
from tianci.batch import Batch
from tianci.data.memory import MemoryStore
from tianci.errors import UserError
from tianci.goals.objectives.next_sentence import IS_NEXT, IS_RANDOM, NextSentence
from tianci.goals.objectives.segments import Example
from tianci.models.bert import Config


def test_by_hand() -> None:
    # document 0: sentences 0-4, 4-8, 8-12; document 1: 12-16, 16-20
    documents = MemoryStore([[[1] * 4] * 3, [[1] * 4] * 2])
    dice = Dice(
        *(0.5, 1, 0.2, 0, 1),  # full length, split behind sentence 0, random: document 1, second
        *(0.5, 2, 0.7),  # from sentence 1 on: split behind it, next
    )
    goal = NextSentence()
    assert list(goal.cut(documents, 0, 8, 0.0, dice)) == [  # type: ignore[arg-type]
        Example((0, 4), (16, 20), IS_RANDOM),
        Example((4, 8), (8, 12), IS_NEXT),
    ]


def test_a_lonely_sentence_is_split_inside() -> None:
    documents = MemoryStore([[[1] * 6], [[1] * 9]])
    goal = NextSentence()
    following = list(goal.cut(documents, 0, 8, 0.0, Dice(0.5, 2, 0.7)))  # type: ignore[arg-type]
    assert following == [Example((0, 2), (2, 6), IS_NEXT)]
    # the other one begins inside a sentence, too: its first word must not give the answer away
    dice = Dice(0.5, 2, 0.2, 0, 0, 8, [0.9])  # from token 8 on; one token too many, off the end
    foreign = list(goal.cut(documents, 0, 8, 0.0, dice))  # type: ignore[arg-type]
    assert foreign == [Example((0, 2), (8, 14), IS_RANDOM)]


def spans(documents: MemoryStore) -> list[tuple[int, int]]:
    found = [documents.sentences(d) for d in range(documents.count())]
    return [(int(s[0]), int(s[-1])) for s in found]


def test_properties() -> None:
    documents = store(seed=5, documents=60)
    borders = spans(documents)
    starts = {int(b) for d in range(60) for b in documents.sentences(d)[:-1]}
    goal, rng = NextSentence(), np.random.default_rng(0)
    labels: list[int] = []
    for _ in range(8):
        for number, (first, last) in enumerate(borders):
            for example in goal.cut(documents, number, 40, 0.1, rng):
                a, b = example.a, example.b
                assert b is not None
                assert first <= a[0] < a[1] <= last
                assert (a[1] - a[0]) + (b[1] - b[0]) <= 40 and b[0] < b[1]
                cut_away = (a[1] - a[0]) + (b[1] - b[0]) == 40
                if example.label == IS_NEXT:
                    assert a[1] <= b[0] and b[1] <= last
                    assert cut_away or a[1] == b[0]
                else:
                    home = [i for i, (x, y) in enumerate(borders) if x <= b[0] < b[1] <= y]
                    assert len(home) == 1 and home[0] != number
                assert cut_away or a[0] in starts
                labels.append(example.label)
    assert abs(np.mean(labels) - 0.5) < 4 * math.sqrt(0.25 / len(labels))


def test_share_of_random_pairs_is_a_setting() -> None:
    documents, rng = store(seed=6), np.random.default_rng(1)
    for share, expected in ((0.0, {IS_NEXT}), (1.0, {IS_RANDOM})):
        goal = NextSentence(random=share)
        assert {e.label for e in goal.cut(documents, 3, 40, 0.0, rng)} == expected


def test_one_document_is_not_enough() -> None:
    with pytest.raises(UserError, match="at least two documents"):
        list(NextSentence().cut(MemoryStore([[[1, 2]]]), 0, 8, 0.0, np.random.default_rng(0)))


def test_losses() -> None:
    config = Config(vocabulary=30, width=16, layers=1, heads=2, hidden=32, positions=8)
    model = checkpoint.create("bert", config, ("next_sentence",))
    loud(model.model.eval(), 1)
    loud(model.heads["next_sentence"].eval(), 2)
    batch = Batch.of([[2, 9, 3], [2, 8, 3, 7, 3], [2, 5, 3]], [[0] * 3, [0, 0, 0, 1, 1], [0] * 3])
    labels = torch.tensor([IS_NEXT, IS_RANDOM, IS_RANDOM])
    batch = Batch(batch.tokens, batch.layout, batch.segments, {"label": labels})
    states = model.model(batch)
    logits = model.heads["next_sentence"](states.last[[0, 3, 8]])
    expected = -sum(logits[i].log_softmax(-1)[label].item() for i, label in enumerate(labels))
    hits = sum(int(logits[i].argmax()) == int(label) for i, label in enumerate(labels))
    for kind in ("two-class", "sigmoid"):  # two ways to write one number
        loss = NextSentence(loss_kind=kind).loss(model.model, model.heads, states, batch)  # type: ignore[arg-type]
        assert loss.total.item() == pytest.approx(expected, rel=1e-5)
        assert int(loss.hits) == hits
    assert NextSentence().count(batch) == 3


@pytest.mark.parametrize("share", [-0.1, 1.5, math.nan])
def test_a_share_lies_between_0_and_1(share: float) -> None:
    with pytest.raises(UserError, match=f"is {share}, but is a share"):
        NextSentence(random=share)
