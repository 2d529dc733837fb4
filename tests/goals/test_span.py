"""Span corruption: sources and targets by hand, rates, what the audit sees, what is refused."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.goals.tiny import SPECIAL, store
from tests.goals.tiny import tokenizer as small
from tianci.errors import UserError
from tianci.goals.base import Joint
from tianci.goals.laying import Laid, Marks
from tianci.goals.objectives import parse
from tianci.goals.objectives.segments import Example
from tianci.goals.objectives.span import Span, _parts
from tianci.text.tokenizer import Tokenizer
from tianci.train.audit import audit
from tianci.train.examples import Examples, Recipe

SENTINELS = [f"<extra_id_{n}>" for n in range(30)]
WORDS = [*SPECIAL, *SENTINELS, *"abcdefghij", "##s"]
MARKS = Marks(2, 3, (90, 91, 92, 93))
WHOLE = Example((0, 10), opens=True, closes=True)
RNG = np.random.default_rng(0)


def tokenizer() -> Tokenizer:
    return small(WORDS)


class Chosen(Span):
    """Hides what it is told to."""

    def hide(self, size: int, most: int, rng: Any) -> list[tuple[int, int]]:
        return [(2, 4), (7, 8)]


def test_source_and_target_by_hand() -> None:
    text = np.arange(10, 20)
    laid = Chosen().lay(text, WHOLE, MARKS, RNG)
    assert laid.ids.tolist() == [10, 11, 90, 14, 15, 16, 91, 18, 19, 3]
    assert laid.decoder is not None
    assert laid.decoder.tolist() == [2, 90, 12, 13, 91, 17, 92, 3]
    back = Span().restored(laid, WHOLE, MARKS)
    assert back is not None and back.tolist() == text.tolist()
    assert Span().shares(laid, MARKS) == {"span.hidden": (3, 10), "span.spans": (2, 3)}
    wrong = Laid(laid.ids, decoder=laid.decoder[[0, 4, 5, 1, 2, 3, 6, 7]])  # out of order
    assert Span().restored(wrong, WHOLE, MARKS) is None


def test_nothing_to_hide() -> None:
    laid = Span().lay(np.array([10]), WHOLE, MARKS, RNG)
    assert laid.ids.tolist() == [10, 3]
    assert laid.decoder is not None and laid.decoder.tolist() == [2, 3]


def test_rate_and_length_of_spans() -> None:
    rng = np.random.default_rng(1)
    hidden, spans = 0, []
    for _ in range(500):
        found = Span().hide(110, 100, rng)
        assert found[0][0] > 0 and all(b < c for (_, b), (c, _) in pairwise(found))
        hidden += sum(b - a for a, b in found)
        spans += [b - a for a, b in found]
    assert abs(hidden / 500 / 110 - 0.15) < 0.001  # 16.5 tokens: 16 or 17, half and half
    assert abs(np.mean(spans) - 3) < 0.3
    few = Span(rate=0.5).hide(100, 3, rng)  # no more spans than there are sentinels
    assert len(few) == 3 and sum(b - a for a, b in few) == 50


def test_parts_are_never_empty() -> None:
    for total, count in ((1, 1), (5, 5), (9, 3), (20, 1)):
        parts = _parts(total, count, RNG)
        assert len(parts) == count and parts.sum() == total and parts.min() >= 1


class Shifted(Span):
    """A planted fault: a hidden token is lost."""

    def lay(self, *arguments: Any) -> Laid:
        laid = super().lay(*arguments)
        assert laid.decoder is not None
        return Laid(
            laid.ids, decoder=np.delete(laid.decoder, 2) if len(laid.decoder) > 5 else laid.decoder
        )


def measured(goal: Joint) -> Any:
    documents = store(documents=150, vocabulary=WORDS)
    usable = len(SPECIAL) + len(SENTINELS)
    documents.tokens[documents.tokens < usable] = usable
    return audit(Examples(documents, tokenizer(), Recipe(goal, 64, 0.1, 2048, 3)))


def test_audit() -> None:
    report = measured(parse("span"))
    assert report.off == [] and report.rates["span.hidden"].expected == 0.15
    assert abs(report.rates["span.spans"].value - 1 / 3) < 0.05
    assert any("<extra_id_0>" in sample.original for sample in report.samples)
    assert "text" in measured(Joint((Shifted(),))).off
    assert measured(Joint((parse("span", {"span": {"rate": 0.3}}).parts[0],))).off == []


def test_a_vocabulary_without_sentinels() -> None:
    with pytest.raises(UserError, match="span needs <extra_id_0>.*tianci vocab --sentinels 100"):
        Span().marks(small())


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"rate": 1.0}, "span.rate is 1.0"), ({"length": 0.5}, "span.length is 0.5")],
)
def test_wrong_settings(settings: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Span(**settings)
