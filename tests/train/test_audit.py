"""The audit: sound examples pass, planted faults are named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tests.goals.tiny import VOCABULARY, store, tokenizer
from tianci.cli.audit import audit as command
from tianci.cli.audit import draw, table, verdict
from tianci.goals.base import Joint
from tianci.goals.objectives import parse
from tianci.goals.objectives.masked import Corrupted, Masked
from tianci.goals.objectives.next_sentence import NextSentence
from tianci.goals.objectives.segments import Documents, Example, Span
from tianci.goals.objectives.sentence_order import SentenceOrder
from tianci.train.audit import Rate, Report, Sample, audit, wilson
from tianci.train.examples import Examples, Recipe
from tianci.train.pool import Pool


def measured(goal: Joint, expected: Joint | None = None, kind: type[Examples] = Examples) -> Report:
    documents = store(documents=150, sentences=15)
    return audit(kind(documents, tokenizer(), Recipe(goal, 64, 0.1, 2048, 3)), 10**6, expected)


@pytest.mark.parametrize(
    "objective", ["masked", "masked+next_sentence", "masked+sentence_order", "next_sentence"]
)
def test_sound_examples_pass(objective: str) -> None:
    report = measured(parse(objective))
    assert report.off == []
    assert report.tokens > 30_000
    assert ("masked.chosen" in report.rates) == ("masked" in objective)
    assert report.rates["mean_length"].value == pytest.approx(report.tokens / report.sequences)
    assert len(report.samples) == 10
    for name, rate in report.rates.items():
        assert rate.low <= rate.value <= rate.high, name


@pytest.mark.parametrize(
    "settings",
    [{"rate": 0.3}, {"mask": 0.5, "random": 0.25}, {"span": 3.0}, {"whole_words": False}],
)
def test_sound_settings_pass(settings: dict[str, Any]) -> None:
    assert measured(parse("masked", {"masked": settings})).off == []


class TouchesSpecial(Masked):
    def corrupt(self, tokens: Any, sequence: Any, special: Any, *rest: Any) -> Corrupted:
        return super().corrupt(tokens, sequence, np.zeros_like(special), *rest)


class DrawsSpecial(Masked):
    def corrupt(self, *given: Any) -> Corrupted:
        *others, ordinary, rng = given
        return super().corrupt(*others, np.r_[ordinary, [2] * 20], rng)


class ChangesOthers(Masked):
    def corrupt(self, tokens: Any, *rest: Any) -> Corrupted:
        hidden = super().corrupt(tokens, *rest)
        hidden.tokens[np.flatnonzero(~hidden.chosen)[::500]] = 9
        return hidden


class MixedWays(Masked):
    """Chooses whole words, but throws the dice for each token."""

    def corrupt(self, tokens: Any, *rest: Any) -> Corrupted:
        *_, mask, _, rng = rest
        hidden = super().corrupt(tokens, *rest)
        single = rng.random(len(tokens)) < 0.8
        hidden.tokens[hidden.chosen] = np.where(single, mask, tokens)[hidden.chosen]
        return hidden


@dataclass(frozen=True)
class Flipped(NextSentence):
    def cut(self, *given: Any) -> Iterator[Example]:
        for example in super().cut(*given):
            yield example._replace(label=1 - example.label)


@dataclass(frozen=True)
class SameDocument(NextSentence):
    def _elsewhere(self, documents: Documents, document: int, *rest: Any) -> Span:
        sentences = documents.sentences(document)
        return int(sentences[0]), int(sentences[1])


@dataclass(frozen=True)
class FlippedOrder(SentenceOrder):
    def cut(self, *given: Any) -> Iterator[Example]:
        for example in super().cut(*given):
            yield example._replace(label=1 - example.label)


@dataclass(frozen=True)
class AcrossDocuments(NextSentence):
    def cut(self, *given: Any) -> Iterator[Example]:
        for example in super().cut(*given):
            yield example._replace(a=(max(0, example.a[0] - 12), example.a[1]))


MASKED, PAIRS, ORDER = Masked(), NextSentence(), SentenceOrder()
FAULTS: dict[str, tuple[Joint, Joint, set[str]]] = {
    "rate 0.2 instead of 0.15": (
        Joint((Masked(rate=0.2),)), Joint((MASKED,)), {"masked.chosen"},
    ),
    "90/5/5 instead of 80/10/10": (
        Joint((Masked(mask=0.9, random=0.05),)), Joint((MASKED,)),
        {"masked.mask", "masked.random", "masked.unchanged"},
    ),
    "no random tokens": (
        Joint((Masked(mask=0.9, random=0.0),)), Joint((MASKED,)),
        {"masked.mask", "masked.random"},
    ),
    "half-masked words": (
        Joint((Masked(whole_words=False),)), Joint((MASKED,)),
        {"masked.half_words", "masked.mixed_words"},
    ),
    "words hidden in several ways": (
        Joint((MixedWays(),)), Joint((MASKED,)),
        {"masked.mixed_words", "masked.random", "masked.unchanged", "masked.mask"},
    ),
    "[CLS] and [SEP] chosen": (
        Joint((TouchesSpecial(),)), Joint((MASKED,)), {"masked.special_chosen"},
    ),
    "special tokens as random ones": (
        Joint((DrawsSpecial(),)), Joint((MASKED,)), {"masked.random_special"},
    ),
    "other tokens changed": (
        Joint((ChangesOthers(),)), Joint((MASKED,)), {"text"},
    ),
    "labels flipped": (
        Joint((MASKED, Flipped())), Joint((MASKED, PAIRS)),
        {"next_sentence.elsewhere", "next_sentence.follows"},
    ),
    "random pairs from the same document": (
        Joint((MASKED, SameDocument())), Joint((MASKED, PAIRS)), {"next_sentence.elsewhere"},
    ),
    "a third of the pairs random": (
        Joint((MASKED, NextSentence(random=0.33))), Joint((MASKED, PAIRS)),
        {"next_sentence.random"},
    ),
    "segments across documents": (
        Joint((MASKED, AcrossDocuments())), Joint((MASKED, PAIRS)),
        {"inside_document", "next_sentence.elsewhere"},
    ),
    "order labels flipped": (
        Joint((MASKED, FlippedOrder())), Joint((MASKED, ORDER)),
        {"sentence_order.follows", "sentence_order.leads"},
    ),
    "too many swapped": (
        Joint((MASKED, SentenceOrder(swapped=0.6))), Joint((MASKED, ORDER)),
        {"sentence_order.swapped"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_fault_is_named(fault: str) -> None:
    goal, expected, names = FAULTS[fault]
    off = set(measured(goal, expected).off)
    if fault == "segments across documents":  # what else goes wrong depends on the cut
        assert "inside_document" in off
    elif fault == "[CLS] and [SEP] chosen":  # and then they count among the words
        assert names <= off
    else:
        assert off == names


class WrongSegments(Examples):
    def templated(self, *given: Any) -> Pool:
        pool = super().templated(*given)
        assert pool.segments is not None
        return replace(pool, segments=1 - pool.segments)


class WrongTargets(Examples):
    def templated(self, *given: Any) -> Pool:
        pool = super().templated(*given)
        return replace(pool, answers=np.roll(pool.answers, 1))


@pytest.mark.parametrize(("kind", "name"), [(WrongSegments, "segments"), (WrongTargets, "text")])
def test_faults_behind_the_goal_are_found(kind: type[Examples], name: str) -> None:
    assert name in measured(parse("masked+next_sentence"), kind=kind).off


def test_random_tokens_that_hit_the_original_are_accounted_for() -> None:
    report = measured(parse("masked", {"masked": {"mask": 0.0, "random": 1.0}}))
    lucky = 1 / (len(VOCABULARY) - 5)  # of single tokens; words of several are luckier still
    unchanged = report.rates["masked.unchanged"]
    assert unchanged.expected is not None
    assert 0.7 * lucky < unchanged.expected < lucky
    assert unchanged.value > 0 and unchanged.ok


def test_wilson() -> None:
    # 10 of 20 at 1.96: the textbook's 0.299 to 0.701
    assert wilson(10, 20, 1.96) == (
        pytest.approx(0.2993, abs=1e-4),
        pytest.approx(0.7007, abs=1e-4),
    )
    low, high = wilson(0, 100, 1.96)
    assert low == 0.0 and high == pytest.approx(0.0370, abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)


def test_always_and_never_have_no_tolerance() -> None:
    assert not Rate(1e-6, 0.0, 1.0, 0.0).ok
    assert not Rate(1 - 1e-6, 0.0, 1.0, 1.0).ok
    assert Rate(0.4, 0.3, 0.5, 0.5).ok and not Rate(0.4, 0.3, 0.49, 0.5).ok
    assert Rate(0.4, 0.3, 0.5).ok


SAMPLE = Sample(
    original=["[CLS]", "今", "天", "play", "##ing", "[SEP]", "不", "错", "[SEP]"],
    seen=["[CLS]", "[MASK]", "天", "dog", "cat", "[SEP]", "不", "错", "[SEP]"],
    marks=["", "mask", "", "random", "random", "", "kept", "", ""],
    segments=[0] * 6 + [1] * 3,
    label="next",
)


def test_examples_are_marked() -> None:
    assert draw(SAMPLE, colored=False) == (
        "next: [CLS] [今]天 [play>dog][ing>cat] [SEP] ‖ [=不]错 [SEP]"
    )
    colored = draw(SAMPLE, colored=True)
    assert "\x1b[30;43m今\x1b[0m" in colored and "\x1b[37;41mplay→dog\x1b[0m" in colored
    assert "\x1b[36m错\x1b[0m" in colored  # the second segment has its own colour


def test_verdict_and_table() -> None:
    good, bad = Rate(0.15, 0.14, 0.16, 0.15), Rate(0.2, 0.19, 0.21, 0.15)
    fine = Report({"masked.chosen": good}, 1000, 10, [])
    assert verdict(fine, "masked").startswith("all as expected: 1 rates")
    wrong = Report({"masked.chosen": bad, "text": Rate(1.0, 0.9, 1.0, 1.0)}, 1000, 10, [])
    assert verdict(wrong, "masked").startswith("1 rate is off: masked.chosen;")
    assert "OFF" in table(wrong) and "OFF" not in table(fine)


def call(*arguments: str, **environment: str) -> str:
    result = CliRunner().invoke(command, arguments, env=environment)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def test_command(corpus: Path) -> None:
    result = json.loads(call(str(corpus), "--json", "--tokens", "20000", "--length", "64"))
    assert result["ok"] and result["off"] == []
    assert set(result["rates"]["masked.chosen"]) == {"value", "low", "high", "expected", "ok"}
    assert result["rates"]["masked.chosen"]["expected"] == 0.15
    assert 20000 <= result["tokens"] < 30000 and len(result["examples"]) == 10

    text = call(str(corpus), "--tokens", "20000", "--objective", "masked+sentence_order")
    assert "all as expected" in text and "sentence_order.swapped" in text
    assert "\x1b" not in text and "‖" in text
    assert "\x1b" in call(str(corpus), "--tokens", "9000", "--color")
    assert "\x1b" in call(str(corpus), "--tokens", "9000", FORCE_COLOR="1")
    assert "\x1b" not in call(str(corpus), "--tokens", "9000", FORCE_COLOR="1", NO_COLOR="1")


def test_command_takes_settings(corpus: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        '[pretrain]\nobjective = "masked"\n[train]\nlength = 32\n[masked]\nrate = 0.3\n',
        encoding="utf-8",
    )
    result = json.loads(call(str(corpus), "--json", "--tokens", "9000", "--settings", str(recipe)))
    assert result["objective"] == "masked" and result["rates"]["masked.chosen"]["expected"] == 0.3
    assert max(len(e["original"]) for e in result["examples"]) <= 32
    given = ("--set", "masked.rate=0.25", "--objective", "masked")
    result = json.loads(call(str(corpus), "--json", "--tokens", "9000", *given))
    assert result["rates"]["masked.chosen"]["expected"] == 0.25
