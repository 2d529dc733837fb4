"""Perplexity: windows by hand, numbers as transformers gives them, words for wrong questions."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from tests.evaluate.test_objectives import corpus  # noqa: F401  (a fixture)
from tests.parity.family import loud
from tianci import checkpoint
from tianci.checkpoint import Checkpoint
from tianci.cli.evaluate import evaluate as command
from tianci.data.corpus import Corpus
from tianci.errors import UserError
from tianci.evaluate.perplexity import evaluate_perplexity, log_likelihoods, windows
from tianci.models import bert, gpt2
from tianci.serve.predictor import Predictor, load

TEXTS = ["我今天去公园读书，公园的书很好。", "老师今天去学校吃饭", "书", ""]


@pytest.fixture(scope="module")
def directory(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    tokenizer = Corpus(corpus).tokenizer()
    sizes = {"begin": tokenizer.cls, "end": tokenizer.sep, "pad": tokenizer.pad}
    model = checkpoint.create("gpt2", gpt2.Config(45, 16, 2, 2, 32, 40, **sizes), ("causal",))
    loud(model.model, 1)
    model.tokenizer = tokenizer
    folder = tmp_path_factory.mktemp("models") / "decoder"
    checkpoint.write(folder, model)
    return folder


def plain(directory: Path, ids: list[int]) -> list[float]:
    """One text, all logits, by transformers."""
    from transformers import GPT2LMHeadModel

    model = GPT2LMHeadModel.from_pretrained(directory).eval()
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].log_softmax(-1)
    return [logits[place, token].item() for place, token in enumerate(ids[1:])]


def test_windows_judge_every_token_once() -> None:
    assert list(windows(0, 5, 8, 4)) == [(0, 0, 5, 1)]
    assert list(windows(3, 14, 6, 3)) == [(3, 0, 6, 1), (3, 3, 9, 6), (3, 6, 12, 9), (3, 8, 14, 12)]
    assert list(windows(0, 1, 6, 3)) == []  # nothing but the begin token
    for size in range(2, 30):
        for stride in range(1, 7):
            judged = [p for w in windows(0, size, 7, stride) for p in range(w.first, w.stop)]
            assert judged == list(range(1, size))
            assert all(w.stop - w.start <= 7 and w.start < w.first for w in windows(0, size, 7, 3))


def test_scores_are_transformers(directory: Path) -> None:
    predictor = load(directory, "cpu")
    tokenizer = predictor.tokenizer
    found = predictor.score(TEXTS)
    for text, answer in zip(TEXTS, found, strict=True):
        ids = tokenizer.ids([text], special=False)[0]
        expected = plain(directory, [tokenizer.cls, *ids])  # type: ignore[list-item]
        assert answer["token_scores"] == pytest.approx(expected, abs=1e-5)
        assert answer["score"] == pytest.approx(math.fsum(expected), abs=1e-4)
        assert answer["tokens"] == [tokenizer.token(i) for i in ids]
    assert predictor.score(TEXTS[0]) == found[0]


def test_long_texts_in_windows(directory: Path) -> None:
    """By transformers, each window for itself."""
    saved = checkpoint.read(directory)
    text = [5 + n % 40 for n in range(30)]
    row = [2, *text]
    expected: list[float] = []
    for _, start, stop, first in windows(0, 31, 12, 5):
        expected += plain(directory, row[start:stop])[first - start - 1 :]
    assert log_likelihoods(saved, [text], 2, 12, 5)[0] == pytest.approx(expected, abs=1e-5)
    whole = log_likelihoods(saved, [text], 2, 40, 7)[0]
    assert whole == pytest.approx(plain(directory, row), abs=1e-5)


def test_per_token_word_and_byte(directory: Path, tmp_path: Path) -> None:
    """我今天去公园: 6 words and tokens of 3 bytes each."""
    file = tmp_path / "text.txt"
    file.write_text("我今天去公园", encoding="utf-8")
    result = evaluate_perplexity(directory, file, length=40)
    total = -load(directory, "cpu").score("我今天去公园")["score"]
    assert (result["tokens"], result["words"], result["bytes"]) == (6, 6, 18)
    assert result["causal_loss"] == pytest.approx(total / 6)
    assert result["causal_perplexity"] == pytest.approx(math.exp(total / 6))
    assert result["word_perplexity"] == pytest.approx(math.exp(total / 6))
    assert result["bits_per_byte"] == pytest.approx(total / math.log(2) / 18)


def test_command_on_a_corpus(directory: Path, corpus: Path) -> None:  # noqa: F811
    arguments = [str(directory), str(corpus), "--length", "32", "--stride", "8", "--tokens", "900"]
    found = CliRunner().invoke(command, [*arguments, "--json"])
    assert found.exit_code == 0, found.output
    result = json.loads(found.output)
    assert 900 <= result["tokens"] < 1100 and result["stride"] == 8
    assert result["words"] < result["tokens"] < result["bytes"]
    shown = CliRunner().invoke(command, arguments).output
    assert "bits per byte" in shown and "windows of 32, 8 apart" in shown
    without = CliRunner().invoke(command, [str(directory), str(corpus), "--length", "32"])
    assert "windows of 32, 16 apart" in without.output  # a decoder needs no --objective


@pytest.fixture
def encoder(directory: Path) -> Checkpoint:
    made = checkpoint.create("bert", bert.Config(45, 16, 1, 2, 32, 40), ("masked",))
    made.tokenizer = checkpoint.read(directory).tokenizer
    return made


def test_wrong_questions(directory: Path, encoder: Checkpoint, tmp_path: Path) -> None:
    predictor = load(directory, "cpu")
    with pytest.raises(UserError, match="reads from left to right, so it cannot fill in a mask"):
        predictor.fill("我[MASK]")
    with pytest.raises(UserError, match="whole words are for masked models"):
        predictor.score("我", whole_words=True)
    checkpoint.write(tmp_path / "bert", encoder)
    (tmp_path / "text.txt").write_text("我", encoding="utf-8")
    with pytest.raises(UserError, match="is a bert without a causal head, .*tianci score"):
        evaluate_perplexity(tmp_path / "bert", tmp_path / "text.txt")
    with pytest.raises(UserError, match="a stride of 20 does not fit a context of 20; use 1 to 19"):
        evaluate_perplexity(directory, tmp_path / "text.txt", length=20, stride=20)
    with pytest.raises(UserError, match="a length of 128, but .* reads 40"):
        evaluate_perplexity(directory, tmp_path / "text.txt")
    bare = Predictor(Checkpoint("bert", encoder.model, {}, encoder.tokenizer))
    with pytest.raises(UserError, match="no language-model head, so it cannot score"):
        bare.score("我")
