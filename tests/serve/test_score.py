"""Pseudo-log-likelihood: equal to a plain computation with transformers, and cheap."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from transformers import BertForMaskedLM, PreTrainedTokenizerFast

from tests.goals.tiny import VOCABULARY, tokenizer
from tests.parity.family import loud
from tianci import checkpoint
from tianci.batch import Batch
from tianci.cli.score import score as command
from tianci.errors import UserError
from tianci.models.bert import Config
from tianci.serve.predictor import Predictor, load

TEXTS = [
    "我忘带伞了",
    "我网袋散了",
    "the dog played playing runs",
    "今天天气不错，3.14 % playing 下雨",
    "我",
    "x",  # unknown
]
POSITIONS = 18


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = Config(
        vocabulary=len(VOCABULARY), width=16, layers=2, heads=2, hidden=32, positions=POSITIONS
    )
    model = checkpoint.create("bert", config, ("masked",))
    loud(model.model, 1)
    loud(model.heads["masked"], 2)
    model.tokenizer = tokenizer()
    folder = tmp_path_factory.mktemp("models") / "tiny"
    checkpoint.write(folder, model)
    return folder


@pytest.fixture(scope="module")
def predictor(directory: Path) -> Predictor:
    return load(directory, "cpu")


@pytest.fixture(scope="module")
def plain(directory: Path) -> Callable[[list[int], list[list[int]]], list[float]]:
    """One sequence at a time, all logits: (ids, places to hide for each token) -> scores."""
    model = BertForMaskedLM.from_pretrained(directory).eval()

    @torch.no_grad()
    def compute(ids: list[int], hidden: list[list[int]]) -> list[float]:
        scores = []
        for places in hidden:
            masked = torch.tensor([ids])
            masked[0, places] = VOCABULARY.index("[MASK]")
            logits = model(input_ids=masked).logits[0, places[0]]
            scores.append(logits.log_softmax(-1)[ids[places[0]]].item())
        return scores

    return compute


def test_equals_transformers(directory: Path, predictor: Predictor, plain: Any) -> None:
    theirs = PreTrainedTokenizerFast.from_pretrained(directory)
    for text, found in zip(TEXTS, predictor.score(TEXTS), strict=True):
        ids = theirs(text)["input_ids"]
        expected = plain(ids, [[place] for place in range(1, len(ids) - 1)])
        assert found["token_scores"] == pytest.approx(expected, abs=1e-4)
        assert found["score"] == pytest.approx(sum(expected), abs=1e-4)
        assert found["mean"] == pytest.approx(sum(expected) / len(expected), abs=1e-4)
        assert found["tokens"] == theirs.convert_ids_to_tokens(ids)[1:-1]


def test_whole_words_hide_the_rest_of_the_word(predictor: Predictor, plain: Any) -> None:
    text = "the playing dog runs"
    tokens = ["[CLS]", "the", "play", "##ing", "dog", "run", "##s", "[SEP]"]
    ids = [VOCABULARY.index(token) for token in tokens]
    expected = plain(ids, [[1], [2, 3], [3], [4], [5, 6], [6]])
    found = predictor.score(text, whole_words=True)
    assert found["token_scores"] == pytest.approx(expected, abs=1e-4)
    usual = predictor.score(text)["token_scores"]
    assert usual[1] != pytest.approx(expected[1], abs=1e-3)
    assert usual[2] == pytest.approx(expected[2], abs=1e-5)


def test_long_text_is_judged_in_windows(predictor: Predictor, plain: Any) -> None:
    text = "今天天气不错，今天我忘带伞了，你有伞不，我不说了"
    row = tokenizer().encode([text])[0]
    inner = row.ids[1:-1]
    room = POSITIONS - 2
    assert len(inner) > room + 5
    expected = []
    for place in range(len(inner)):
        start = min(max(0, place - room // 2), len(inner) - room)
        window = [row.ids[0], *inner[start : start + room], row.ids[-1]]
        expected += plain(window, [[place - start + 1]])
    found = predictor.score([text, "我"])[0]
    assert found["token_scores"] == pytest.approx(expected, abs=1e-4)


def test_one_text_or_many(predictor: Predictor) -> None:
    both = predictor.score(["我忘带伞了", "我"])
    assert isinstance(both, list)
    single = predictor.score("我忘带伞了")
    assert single["score"] == pytest.approx(both[0]["score"], abs=1e-5)
    assert predictor.score([]) == []
    empty = predictor.score("")
    assert empty == {"score": 0.0, "mean": 0.0, "tokens": [], "token_scores": []}


def test_what_comes_again_is_not_computed_again(
    predictor: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    forward = predictor.model.forward

    def counted(batch: Batch) -> Any:
        seen.append(len(batch.layout))
        return forward(batch)

    monkeypatch.setattr(predictor.model, "forward", counted)
    texts = ["我忘带伞了", "我网袋散了", "我忘带伞了"] * 20
    answers = predictor.score(texts)
    assert sum(seen) == 10  # five tokens of two texts, each asked for once
    assert answers[0] == answers[2] == answers[57]
    assert answers[0] != answers[1]


def test_a_stream_is_answered_in_order_while_it_comes(predictor: Predictor) -> None:
    some = VOCABULARY[5:35]
    texts = [f"{some[i % 30]}{some[i // 30 % 30]}大中到说国{some[i % 7]}" for i in range(1500)]
    taken = 0

    def source() -> Any:
        nonlocal taken
        for text in texts:
            taken += 1
            yield text

    stream = predictor.scores(source())
    first = next(stream)
    assert taken < 1300  # the first answer does not wait for the last text
    answers = [first, *stream]
    assert len(answers) == 1500
    for text, answer in list(zip(texts, answers, strict=True))[::100]:
        assert answer["score"] == pytest.approx(predictor.score(text)["score"], abs=1e-4)


def test_needs_a_masked_head(directory: Path) -> None:
    saved = checkpoint.read(directory)
    saved.heads.clear()
    with pytest.raises(UserError, match="cannot score"):
        Predictor(saved).score("我")


def call(*arguments: str, given: str | None = None) -> str:
    result = CliRunner().invoke(command, arguments, input=given)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def test_command(directory: Path, predictor: Predictor, tmp_path: Path) -> None:
    first, second = (predictor.score(text)["score"] for text in TEXTS[:2])
    table = call(str(directory), *TEXTS[:2]).splitlines()
    rows = [line for line in table if any(line.endswith(text) for text in TEXTS[:2])]
    assert [row.startswith("→") for row in rows] == [first > second, second > first]
    assert f"{first:.3f}" in rows[0]

    packed = tmp_path / "texts.gz"
    packed.write_bytes(gzip.compress("\n".join(TEXTS).encode()))
    lines = [
        json.loads(line)
        for line in call(str(directory), "--file", str(packed), "--json").splitlines()
    ]
    assert [line["text"] for line in lines] == TEXTS
    assert all({"score", "tokens", "token_scores", "mean"} <= set(line) for line in lines)
    assert lines[0]["score"] == pytest.approx(first, abs=1e-4)

    piped = call(str(directory), "--file", "-", "--json", given="我\n你\n")
    assert [json.loads(line)["tokens"] for line in piped.splitlines()] == [["我"], ["你"]]
    words = call(str(directory), "playing", "--whole-words", "--json")
    expected = predictor.score("playing", whole_words=True)["score"]
    assert json.loads(words)["score"] == pytest.approx(expected, abs=1e-5)

    assert CliRunner().invoke(command, [str(directory)]).exit_code == 2
