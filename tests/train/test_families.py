"""Pre-training of every encoder family: it learns, goes on to the same bits, transformers reads
it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.train.conftest import write_text
from tianci import checkpoint
from tianci.data.prepare import PrepareSettings, prepare
from tianci.errors import UserError
from tianci.models import distilbert
from tianci.serve.predictor import load
from tianci.text.learn import Vocabulary, learn
from tianci.train.pretrain import pretrain
from tianci.train.settings import Pretrain, Train

SIZES = {"width": 64, "layers": 2, "heads": 2, "hidden": 128, "positions": 64}
STEPS = 60
CASES = {
    "roberta": ("masked", {}),
    "albert": ("masked+sentence_order", {"embedding": 32}),
    "albert, shared attention": ("masked", {"embedding": 32, "sharing": "attention"}),
    "distilbert": ("masked", {}),
}


@pytest.fixture(scope="module")
def byte_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """RoBERTa's kind of vocabulary."""
    folder = tmp_path_factory.mktemp("bytes")
    text = write_text(folder / "text.txt", 300)
    tokenizer, _ = learn([text], Vocabulary(kind="byte-bpe", size=330, hold_back=0.0))
    (folder / "vocab").mkdir()
    tokenizer.save(folder / "vocab")
    settings = PrepareSettings(layout="lines", borders="blank", held=0.05)
    prepare([text], folder / "vocab", folder / "store", settings)
    return folder / "store"


def run(corpus: Path, out: Path, family: str, start: str = "", **train: Any) -> dict[str, Any]:
    objective, sizes = CASES[family]
    new = {} if start else {"preset": family.partition(",")[0] + "-tiny"}
    sections = {
        "pretrain": Pretrain(
            str(corpus), objective=objective, out=str(out), start_from=start, **new
        ),
        "train": Train(**{"length": 48, "batch_tokens": 512, "steps": STEPS, "lr": 5e-3, **train}),
        "model": {} if start else {**SIZES, **sizes},
    }
    return pretrain(sections, quiet=True)


def stopped_at(step: int, run: Path, copy: Path) -> None:
    """The run as if it had been killed after the checkpoint of that step."""
    shutil.copytree(run, copy)
    (copy / "model.safetensors").unlink()
    for folder in (copy / "checkpoints").iterdir():
        if int(folder.name.removeprefix("step-")) > step:
            shutil.rmtree(folder)
    lines = (copy / "log.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["event"] != "end"]
    (copy / "log.jsonl").write_text("".join(kept))


@pytest.mark.parametrize("family", list(CASES))
def test_learns_and_goes_on_to_the_same_bits(
    family: str, corpus: Path, byte_corpus: Path, tmp_path: Path
) -> None:
    text = byte_corpus if family == "roberta" else corpus
    packing = "full" if family == "roberta" else "document"
    summary = run(text, tmp_path / "whole", family, save_every=45, dropout=0.1, packing=packing)
    assert summary["held"]["masked"]["loss"] < summary["unigram_entropy"] - 0.05
    stopped_at(45, tmp_path / "whole", tmp_path / "again")
    pretrain({}, quiet=True, resume=str(tmp_path / "again"))
    one, two = (tmp_path / name / "model.safetensors" for name in ("whole", "again"))
    assert one.read_bytes() == two.read_bytes()

    transformers = pytest.importorskip("transformers", reason="parity needs the dev extra")
    saved = checkpoint.read(tmp_path / "whole")
    _, report = getattr(transformers, saved.architecture).from_pretrained(
        tmp_path / "whole", output_loading_info=True
    )
    assert not any(report.values())
    if family == "roberta":  # with its own tokenizer, and padding at 0
        gap = "我今<mask>去公园读书，公园的书很好。"
        pipe = transformers.pipeline("fill-mask", model=str(tmp_path / "whole"), top_k=1)
        ours = load(tmp_path / "whole").fill(gap, top=1)[0][0]
        assert abs(pipe(gap)[0]["score"] - ours["score"]) < 1e-5


def test_a_head_that_the_family_lacks(corpus: Path, tmp_path: Path) -> None:
    both, out = "masked+next_sentence", str(tmp_path / "run")
    sections = {
        "pretrain": Pretrain(str(corpus), "roberta-tiny", both, out),
        "train": Train(steps=1),
        "model": SIZES,
    }
    with pytest.raises(UserError, match="roberta has no head for next_sentence; it has: .*masked"):
        pretrain(sections, quiet=True)


def test_a_family_learns_what_it_was_made_for(corpus: Path, tmp_path: Path) -> None:
    sections = {
        "pretrain": Pretrain(str(corpus), "roberta-tiny", out=str(tmp_path / "run")),
        "train": Train(steps=1, length=48),
        "model": SIZES,
    }
    assert set(pretrain(sections, quiet=True)["held"]) == {"masked"}


def test_a_shallow_copy_of_a_bert_goes_on_learning(corpus: Path, tmp_path: Path) -> None:
    sections = {
        "pretrain": Pretrain(str(corpus), "bert-tiny", "masked", str(tmp_path / "bert")),
        "train": Train(steps=40, length=48, batch_tokens=512, lr=5e-3),
        "model": SIZES,
    }
    teacher = pretrain(sections, quiet=True)["held"]["masked"]["loss"]
    bert = checkpoint.read(tmp_path / "bert")
    student = checkpoint.Checkpoint(
        "distilbert", distilbert.from_bert(bert.model), bert.heads, bert.tokenizer
    )
    checkpoint.write(tmp_path / "start", student)
    summary = run(corpus, tmp_path / "run", "distilbert", str(tmp_path / "start"))
    fresh = run(corpus, tmp_path / "fresh", "distilbert")["held"]["masked"]["loss"]
    assert summary["held"]["masked"]["loss"] < min(fresh, teacher + 0.5)
