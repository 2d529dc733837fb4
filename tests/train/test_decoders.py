"""Pre-training of decoders: they learn, go on to the same bits, transformers reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.train.conftest import write_text
from tests.train.test_families import stopped_at
from tianci import checkpoint
from tianci.data.corpus import Corpus
from tianci.data.prepare import PrepareSettings, prepare
from tianci.text.learn import Vocabulary, learn
from tianci.train.pretrain import pretrain
from tianci.train.settings import Pretrain, Train
from tianci.train.verdict import verdict

SIZES: dict[str, dict[str, Any]] = {
    "gpt": {"width": 64, "layers": 2, "heads": 2, "positions": 64},
    "gpt2": {"width": 64, "layers": 2, "heads": 2, "hidden": 128, "positions": 64},
}


def run(corpus: Path, out: Path, family: str, start: str = "", **train: Any) -> dict[str, Any]:
    new = {} if start else {"preset": f"{family}-tiny"}
    sections = {
        "pretrain": Pretrain(
            str(corpus), objective="causal", out=str(out), start_from=start, **new
        ),
        "train": Train(**{"length": 48, "batch_tokens": 512, "steps": 50, "lr": 5e-3, **train}),
        "model": {} if start else SIZES[family],
    }
    return pretrain(sections, quiet=True)


@pytest.mark.parametrize(("family", "packing"), [("gpt2", "document"), ("gpt", "full")])
def test_learns_and_goes_on_to_the_same_bits(
    family: str, packing: str, corpus: Path, tmp_path: Path
) -> None:
    summary = run(corpus, tmp_path / "whole", family, save_every=45, dropout=0.1, packing=packing)
    held = summary["held"]["causal"]
    # held-out documents each begin with [CLS], which full packing shows once in 64 contexts
    floor = summary["bigram_entropy"] + 0.3 * (packing == "full")
    assert held["loss"] < floor < summary["unigram_entropy"]
    if packing == "document":
        assert summary["verdict"].startswith("it has learned to read: held-out causal loss")
    stopped_at(45, tmp_path / "whole", tmp_path / "again")
    pretrain({}, quiet=True, resume=str(tmp_path / "again"))
    one, two = (tmp_path / name / "model.safetensors" for name in ("whole", "again"))
    assert one.read_bytes() == two.read_bytes()
    page = (tmp_path / "whole" / "report.html").read_text(encoding="utf-8")
    assert "Causal loss" in page and "bigram floor" in page

    saved = checkpoint.read(tmp_path / "whole")
    tokenizer = Corpus(corpus).tokenizer()
    config = saved.model.config
    assert (config.begin, config.end) == (tokenizer.cls, tokenizer.sep)
    transformers = pytest.importorskip("transformers", reason="parity needs the dev extra")
    model, report = getattr(transformers, saved.architecture).from_pretrained(
        tmp_path / "whole", output_loading_info=True
    )
    assert not any(report.values())
    # their own loss, their own shift by one
    ids = torch.tensor(tokenizer.ids(["我今天去公园读书，公园的书很好。"]))
    from tianci.batch import Batch
    from tianci.goals.objectives import parse
    from tianci.train.loop import measure

    ours = measure(saved, parse("causal"), [Batch.of(ids.tolist())], "cpu")["causal"]["loss"]
    assert model(ids, labels=ids).loss.item() == pytest.approx(ours, abs=1e-5)


def test_goes_on_from_a_model(corpus: Path, tmp_path: Path) -> None:
    first = run(corpus, tmp_path / "one", "gpt2", steps=15)
    second = run(corpus, tmp_path / "two", "gpt2", str(tmp_path / "one"), steps=15)
    assert second["held"]["causal"]["loss"] < first["held"]["causal"]["loss"]
    events = [json.loads(x)["event"] for x in (tmp_path / "two" / "log.jsonl").open()]
    assert "end" in events


@pytest.fixture(scope="module")
def hidden_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vocabulary with sentinels."""
    folder = tmp_path_factory.mktemp("hidden")
    text = write_text(folder / "text.txt", 300)
    tokenizer, _ = learn([text], Vocabulary(kind="char", size=65, sentinels=20, hold_back=0.0))
    (folder / "vocab").mkdir()
    tokenizer.save(folder / "vocab")
    settings = PrepareSettings(layout="lines", borders="blank", held=0.05)
    prepare([text], folder / "vocab", folder / "store", settings)
    return folder / "store"


@pytest.mark.parametrize("objective", ["span", "prefix"])
def test_t5_learns_and_goes_on_to_the_same_bits(
    objective: str, hidden_corpus: Path, tmp_path: Path
) -> None:
    sizes = {"width": 64, "layers": 2, "decoder_layers": 2, "heads": 2, "head_size": 32,
             "hidden": 128, "positions": 64}  # fmt: skip
    sections = {
        "pretrain": Pretrain(str(hidden_corpus), "t5-tiny", objective, str(tmp_path / "whole")),
        "train": Train(length=48, batch_tokens=256, steps=30, lr=5e-3, save_every=25, dropout=0.1),
        "model": sizes,
        "prefix": {"head": "generation"},
    }
    summary = pretrain(sections, quiet=True)
    assert summary["held"][objective]["loss"] < summary["unigram_entropy"] - 0.1
    stopped_at(25, tmp_path / "whole", tmp_path / "again")
    pretrain({}, quiet=True, resume=str(tmp_path / "again"))
    one, two = (tmp_path / name / "model.safetensors" for name in ("whole", "again"))
    assert one.read_bytes() == two.read_bytes()
    saved = checkpoint.read(tmp_path / "whole")
    tokenizer = Corpus(hidden_corpus).tokenizer()
    assert (saved.model.config.begin, saved.model.config.end) == (tokenizer.cls, tokenizer.sep)
    assert saved.architecture == "T5ForConditionalGeneration"


def test_words_of_the_verdict() -> None:
    def said(loss: float) -> str:
        return verdict({"causal": {"loss": loss, "accuracy": 0.25}}, 5.0, 3.0)

    assert said(4.95).startswith("it has not begun to learn: held-out causal loss 4.95")
    assert said(4.0).startswith("it has learned something, but the token before tells more")
    assert said(2.5).startswith("it has learned to read")
