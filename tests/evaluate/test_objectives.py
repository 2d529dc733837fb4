"""A model on the held-out text of a corpus: the same numbers as transformers, each time."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from transformers import BertForPreTraining

from tests.goals.tiny import SPECIAL, tokenizer
from tests.parity.family import loud, padded_inputs
from tests.train.conftest import write_text
from tianci import checkpoint
from tianci.cli.evaluate import evaluate as command
from tianci.data.corpus import Corpus
from tianci.data.prepare import PrepareSettings, prepare
from tianci.data.store import SplitStore
from tianci.errors import UserError
from tianci.evaluate.objectives import evaluate_objectives
from tianci.goals.objectives import parse
from tianci.models.bert import Config
from tianci.text.learn import Vocabulary, learn
from tianci.train.examples import Examples, Recipe
from tianci.train.held_out import HELD_SEED

BOTH = "masked+next_sentence"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    text = write_text(folder / "text.txt", 200)
    learned, _ = learn([text], Vocabulary(kind="char", size=45, hold_back=0.0))
    (folder / "vocab").mkdir()
    learned.save(folder / "vocab")
    settings = PrepareSettings(layout="lines", borders="blank", held=0.1)
    prepare([text], folder / "vocab", folder / "store", settings)
    return folder / "store"


@pytest.fixture(scope="module")
def directory(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = Config(vocabulary=45, width=16, layers=2, heads=2, hidden=32, positions=64)
    model = checkpoint.create("bert", config, ("masked", "next_sentence"))
    for seed, part in enumerate((model.model, *model.heads.values())):
        loud(part, seed)
    model.tokenizer = Corpus(corpus).tokenizer()
    folder = tmp_path_factory.mktemp("models") / "tiny"
    checkpoint.write(folder, model)
    return folder


@torch.no_grad()
def test_equals_transformers(corpus: Path, directory: Path) -> None:
    found = evaluate_objectives(directory, corpus, BOTH, tokens=3000, length=64)
    source = Corpus(corpus)
    recipe = Recipe(parse(BOTH), 64, 0.1, 4096, HELD_SEED)
    batches = Examples(SplitStore(source.split("held")), source.tokenizer(), recipe).fixed(3000)
    peer = BertForPreTraining.from_pretrained(directory).eval()
    masked = pairs = right = 0.0
    for batch in batches:
        out = peer(**padded_inputs(batch))
        logits = batch.layout.pack(out.prediction_logits)[batch.targets["masked_at"]]
        logs = logits.log_softmax(-1)
        masked -= logs.gather(1, batch.targets["masked_is"][:, None]).sum().item()
        right += (logs.argmax(-1) == batch.targets["masked_is"]).sum().item()
        logs = out.seq_relationship_logits.log_softmax(-1)
        pairs -= logs.gather(1, batch.targets["label"][:, None]).sum().item()
    count = sum(len(batch.targets["masked_at"]) for batch in batches)
    sequences = sum(len(batch.layout) for batch in batches)
    assert found["masked_loss"] == pytest.approx(masked / count, abs=1e-4)
    assert found["masked_perplexity"] == pytest.approx(math.exp(masked / count), rel=1e-3)
    assert found["masked_accuracy"] == pytest.approx(right / count)
    assert found["masked_count"] == count
    assert found["next_sentence_loss"] == pytest.approx(pairs / sequences, abs=1e-4)
    assert found["count"] == found["next_sentence_count"] == sequences


def test_same_examples_each_time(corpus: Path, directory: Path) -> None:
    def once(**settings: object) -> dict[str, object]:
        return evaluate_objectives(directory, corpus, BOTH, tokens=2000, length=64, **settings)  # type: ignore[arg-type]

    assert once() == once()
    assert once(seed=1)["masked_loss"] != once()["masked_loss"]
    assert once(split="train")["masked_loss"] != once()["masked_loss"]


def test_objective_of_the_model_is_the_default(corpus: Path, directory: Path) -> None:
    assert evaluate_objectives(directory, corpus, tokens=900, length=64)["objective"] == BOTH


def test_refusals(corpus: Path, directory: Path, tmp_path: Path) -> None:
    saved = checkpoint.read(directory)
    del saved.heads["next_sentence"]
    checkpoint.write(tmp_path / "masked", saved)
    with pytest.raises(UserError, match="has no head for next_sentence"):
        evaluate_objectives(tmp_path / "masked", corpus, BOTH, length=64)
    with pytest.raises(UserError, match="a length of 128, but"):
        evaluate_objectives(directory, corpus, BOTH)
    with pytest.raises(UserError, match='unknown split "hold"; did you mean "held"'):
        evaluate_objectives(directory, corpus, split="hold", length=64)
    saved.tokenizer = tokenizer([*SPECIAL, *(chr(0x4E00 + i) for i in range(40))])
    checkpoint.write(tmp_path / "other", saved)
    with pytest.raises(UserError, match="another vocabulary"):
        evaluate_objectives(tmp_path / "other", corpus, "masked", length=64)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def test_command(corpus: Path, directory: Path, tmp_path: Path) -> None:
    usual = (str(directory), str(corpus), "--tokens", "2000", "--length", "64")
    result = call(*usual, "--json", "--objective", BOTH)
    values = json.loads(result.output)
    expected = evaluate_objectives(directory, corpus, BOTH, tokens=2000, length=64)
    assert values == pytest.approx(expected)
    assert "unigram_entropy" in values
    text = call(*usual).output
    assert f"{expected['masked_loss']:.4f}" in text and "next_sentence" in text

    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"wrong": "我今天", "correct": "你今天"}\n', encoding="utf-8")
    scored = json.loads(
        call(str(directory), "--suite", "csc", str(pairs), "--json", "--quiet").output
    )
    assert scored["count"] == 1 and scored["accuracy"] in (0.0, 1.0)
    assert "csc" in call(str(directory), str(pairs), "--suite", "csc", "--quiet").output

    refused = call(str(directory), str(pairs))
    assert isinstance(refused.exception, UserError)
