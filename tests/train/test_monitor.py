"""Planted faults: each must be noticed and named, with the setting to change; a good run must stay
silent.

Prints the table (fault, detected as, message) at the end of the run.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import FAULTS
from tests.train.conftest import write_text
from tianci.data.corpus import Corpus
from tianci.data.prepare import PrepareSettings, prepare
from tianci.text.learn import Vocabulary, learn
from tianci.train import examples
from tianci.train.loop import Step
from tianci.train.monitor import Monitor, share_of_copies
from tianci.train.pretrain import pretrain
from tianci.train.session import TrainingError
from tianci.train.settings import Pretrain, Train

SIZES = {"width": 32, "layers": 2, "heads": 2, "hidden": 64, "positions": 64}


def findings(
    corpus: Path, out: Path, sizes: dict[str, int] | None = None, **train: object
) -> dict[str, str]:
    """Trains for a few seconds; what the monitor said, by fault."""
    values = {"steps": 500, "length": 48, "batch_tokens": 256, "dropout": 0.0, **train}
    sections = {
        "pretrain": Pretrain(corpus=str(corpus), preset="tiny", out=str(out), objective="masked"),
        "train": Train(**values),  # type: ignore[arg-type]
        "model": {**SIZES, **(sizes or {})},
    }
    try:
        pretrain(sections, quiet=True)
    except TrainingError as error:
        assert str(error)
    entries = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return {e["fault"]: e["message"] for e in entries if e["event"] == "finding"}


def expect(planted: str, found: dict[str, str], fault: str, *parts: str) -> None:
    message = found.get(fault, "")
    FAULTS.append((planted, fault if message else "-", message))
    assert message, f"planted: {planted}; found only {found}"
    for part in parts:
        assert part in message


def test_a_good_run_is_silent(corpus: Path, tmp_path: Path) -> None:
    found = findings(corpus, tmp_path / "run", lr=3e-3)
    FAULTS.append(("nothing", "-" if not found else str(found), "(silent)"))
    assert found == {}


def test_rate_too_low(corpus: Path, tmp_path: Path) -> None:
    found = findings(corpus, tmp_path / "run", lr=1e-7)
    expect("rate 1e-7", found, "labels" if "labels" in found else "plateau", "train.lr=")


def test_rate_too_high(corpus: Path, tmp_path: Path) -> None:
    found = findings(corpus, tmp_path / "run", lr=0.3, schedule="constant")
    fault = next((f for f in ("nan", "diverged", "plateau", "labels") if f in found), "plateau")
    expect("rate 0.3", found, fault, "rate")
    assert "times the usual" in found["rate"]


def test_not_a_number(corpus: Path, tmp_path: Path) -> None:
    found = findings(
        corpus, tmp_path / "run", lr=0.999, clip=0.0, eps=1e-30, beta2=0.0, weight_decay=0.0,
        schedule="constant", warmup=0.0, steps=300,
    )  # fmt: skip
    fault = "nan" if "nan" in found else "diverged"
    expect("rate 1, no clipping", found, fault, "train.lr=")


def test_deep_without_warmup(corpus: Path, tmp_path: Path) -> None:
    found = findings(corpus, tmp_path / "run", {"layers": 8}, warmup=0.0, steps=5)
    expect("8 layers, no warm-up", found, "warmup", "train.warmup")


def test_wrong_labels(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that belong to other places: nothing can be learned but their frequency."""
    good = examples.Pool.batch

    def shuffled(self: examples.Pool, numbers: np.ndarray):  # type: ignore[no-untyped-def]
        batch = good(self, numbers)
        batch.targets["masked_is"] = batch.targets["masked_is"].roll(3)  # type: ignore[index]
        return batch

    monkeypatch.setattr(examples.Pool, "batch", shuffled)
    found = findings(corpus, tmp_path / "run", lr=2e-3)
    expect("labels of other places", found, "plateau", "labels", "tianci audit")


def test_broken_vocabulary(tmp_path: Path) -> None:
    """A vocabulary learned from English, used on Chinese: nearly everything is unknown."""
    english = tmp_path / "english.txt"
    english.write_text("the cat sat on the mat and the dog ran\n" * 20)
    tokenizer, _ = learn([english], Vocabulary(kind="wordpiece", size=30, hold_back=0.0))
    (tmp_path / "vocab").mkdir()
    tokenizer.save(tmp_path / "vocab")
    text = write_text(tmp_path / "text.txt", 80)
    prepare(
        [text], tmp_path / "vocab", tmp_path / "store", PrepareSettings(layout="lines", held=0.1)
    )
    found = findings(tmp_path / "store", tmp_path / "run", steps=5)
    expect("English vocabulary, Chinese text", found, "vocabulary", "tianci vocab")


def test_duplicates(tmp_path: Path) -> None:
    once = write_text(tmp_path / "once.txt", 40)
    text = tmp_path / "text.txt"
    text.write_text((once.read_text() + "\n") * 8)
    tokenizer, _ = learn([text], Vocabulary(kind="char", size=45, hold_back=0.0))
    (tmp_path / "vocab").mkdir()
    tokenizer.save(tmp_path / "vocab")
    prepare(
        [text], tmp_path / "vocab", tmp_path / "store", PrepareSettings(layout="lines", held=0.1)
    )
    found = findings(tmp_path / "store", tmp_path / "run", steps=5)
    expect("every document 8 times", found, "duplicates", "--dedupe")


def test_only_stored_copies_count(tmp_path: Path) -> None:
    """Documents that become no token are read, and copies of each other, but they are not there."""
    once = write_text(tmp_path / "once.txt", 40).read_text()
    text = tmp_path / "text.txt"
    text.write_text(once + "\n" + "\u200b\n\n" * 100 + once.split("\n\n")[0], encoding="utf-8")
    tokenizer, _ = learn([tmp_path / "once.txt"], Vocabulary(kind="char", size=45, hold_back=0.0))
    (tmp_path / "vocab").mkdir()
    tokenizer.save(tmp_path / "vocab")
    settings = PrepareSettings(layout="lines", borders="blank")
    found = prepare([text], tmp_path / "vocab", tmp_path / "store", settings)
    assert (found["documents"], found["empty_documents"]) == (41, 100)
    assert found["duplicate_documents"] == 100  # 99 of nothing, and the one real copy
    assert share_of_copies(Corpus(tmp_path / "store").info) == 0.0  # at least 0, never 244 %
    record = {"statistics": {"documents": 50, "duplicate_documents": 51, "empty_documents": 11}}
    assert share_of_copies(record) == 0.8
    # a store from before the statistics said so
    assert share_of_copies({**record, "settings": {"prepare": {"dedupe": True}}}) == 0.0


def monitor(**values: float) -> Monitor:
    base = {"unigram": 6.0, "bigram": 4.0, "layers": 4, "lr": 1e-3, "warmup": 0.1, "clip": 1.0}
    return Monitor(**{**base, "usual_lr": 1e-3, **values})  # type: ignore[arg-type]


def step(number: int, loss: float, gradient: float = 0.5) -> Step:
    return Step(number, loss, {"masked": loss}, {"masked": 0.1}, 1e-3, gradient, 100, 0.1)


def test_nan_is_fatal_and_names_the_rate() -> None:
    finding = monitor(lr=1e-2).step(step(7, math.nan), warm=False)
    assert finding is not None and finding.fatal and finding.fault == "nan"
    assert "step 7" in finding.message and "train.lr=0.001" in finding.message


def test_divergence() -> None:
    watch = monitor(lr=5e-3)
    found = [watch.step(step(i, 4.0), warm=True) for i in range(100)]
    found += [watch.step(step(i, 7.5), warm=True) for i in range(100)]
    said = [f for f in found if f]
    assert [f.fault for f in said][:1] == ["diverged"] and "train.lr=0.001" in said[0].message


def test_learned_by_heart_and_pairs_at_chance() -> None:
    watch = monitor()
    assert watch.held_out(train=2.0, held=2.5) is None
    assert watch.held_out(train=6.2, held=26.0) is None  # it diverges
    finding = watch.held_out(train=2.0, held=4.5)
    assert finding is not None and finding.fault == "memorised" and "--dedupe" in finding.message
    assert watch.pairs("next_sentence", 0.8, 500) is None
    finding = watch.pairs("next_sentence", 0.51, 500)
    assert finding is not None and "blank lines between documents" in finding.message


def test_each_fault_is_said_once() -> None:
    watch = monitor(lr=1e-5)
    said = [watch.step(step(i, 6.0), warm=True) for i in range(1000)]
    assert len([f for f in said if f]) == 1 and "too low" in next(f for f in said if f).message
