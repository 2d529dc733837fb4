"""Filling in and embedding: against transformers' own pipeline, and never dependent on the
batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.parity.family import loud
from tianci import checkpoint
from tianci.errors import UserError
from tianci.models import bert
from tianci.serve import predictor as module
from tianci.serve.predictor import Predictor, load

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *"今天气不错很好我们去公园",
    "the",
    "cat",
    "##s",
    "sat",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "vocab").mkdir()
    (tmp_path / "vocab" / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    config = bert.Config(
        vocabulary=len(WORDS), width=24, layers=2, heads=3, hidden=32, positions=20
    )
    made = checkpoint.create("bert", config, heads=("masked", "next_sentence"))
    for part in (made.model, *made.heads.values()):
        loud(part, 3)
    made.tokenizer = module.Tokenizer.load(tmp_path / "vocab")
    checkpoint.write(tmp_path / "model", made)
    return tmp_path / "model"


def test_fill_equals_the_transformers_pipeline(folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.pipeline("fill-mask", model=str(folder), top_k=4)
    for text in ("今天天气[MASK]错", "the [MASK] sat"):
        for mine, other in zip(load(folder).fill(text, top=4)[0], theirs(text), strict=True):
            assert mine["id"] == other["token"]
            assert mine["token"].removeprefix("##") == other["token_str"].removeprefix("##")
            assert abs(mine["score"] - other["score"]) < 1e-5


def test_fill_several_masks_and_texts(folder: Path) -> None:
    model = load(folder)
    texts = ["[MASK]天[MASK]", "很好[MASK]", "the cats [MASK] 我们去公园"]
    answers = model.fill(texts, top=3)
    assert [len(masks) for masks in answers] == [2, 1, 1]
    for text, masks in zip(texts, answers, strict=True):
        alone = model.fill(text, top=3)
        for one, other in zip(masks, alone, strict=True):
            assert [c["id"] for c in one] == [c["id"] for c in other]
            np.testing.assert_allclose(
                [c["score"] for c in one], [c["score"] for c in other], atol=1e-5
            )
    everything = model.fill("[MASK]", top=1000)[0]
    assert len(everything) == len(WORDS) and abs(sum(c["score"] for c in everything) - 1) < 1e-5


def test_fill_says_what_is_missing(folder: Path) -> None:
    model = load(folder)
    with pytest.raises(UserError, match=r'no \[MASK\] in "今天"'):
        model.fill("今天")
    with pytest.raises(UserError, match="has 24 tokens, but the model reads 20"):
        model.fill("[MASK]" + "天" * 21)
    del model.heads["masked"]
    with pytest.raises(UserError, match="no masked-language-model head"):
        model.fill("[MASK]")


def test_embeddings_do_not_depend_on_the_batch(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(folder)
    texts = ["今天天气不错", "", "the cats sat", "好", "我们去公园" * 9, "the cat"]
    together = model.embed(texts)
    assert together.shape == (6, 24) and together.dtype == np.float32
    for text, row in zip(texts, together, strict=True):
        np.testing.assert_allclose(model.embed(text), row, atol=1e-5)
    monkeypatch.setattr(module, "BATCH_TOKENS", 7)
    np.testing.assert_allclose(model.embed(texts), together, atol=1e-5)
    np.testing.assert_allclose(model.embed(texts[::-1])[::-1], together, atol=1e-5)
    assert model.embed([]).shape == (0, 24)
    unit = model.embed(texts, pooling="max", normalize=True)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-5)


def test_a_preset_has_learned_nothing() -> None:
    with pytest.raises(UserError, match='"bert-mini" is a preset, which has learned nothing'):
        load("bert-mini")


def test_public_name() -> None:
    import tianci

    assert tianci.load is load and tianci.Predictor is Predictor
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        tianci.lod  # noqa: B018
