"""BERT: what every family must keep, its first weights, its names."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from tests.models.family import Check, check_family
from tianci import checkpoint
from tianci.errors import UserError
from tianci.models import bert, family, preset

CONFIG = bert.Config(vocabulary=97, width=32, layers=3, heads=4, hidden=64, positions=512)


@check_family
def test_family(check: Check, tmp_path: Path) -> None:
    check("bert", CONFIG, tmp_path)


def test_fresh_weights_are_berts() -> None:
    torch.manual_seed(0)
    model = bert.build(bert.Config(vocabulary=2000, width=128, layers=2, heads=2, hidden=512))
    for name, p in model.named_parameters():
        if "norm" in name:
            assert torch.equal(p, torch.full_like(p, float(name.endswith("weight"))))
        elif name.endswith("bias"):
            assert not p.any()
        elif name == "embedding.position.weight":  # waves: neighbours begin alike
            assert p[0, 16] == 0 and abs(p[0, 17].item() - 0.02) < 1e-8
            assert abs(p[1, 16].item() - 0.02 * math.sin(10_000 ** (-16 / 128))) < 1e-8
            # the first dimensions are fast and high: the first heads look by them
            assert p[0, 0] == 0 and abs(p[0, 1].item() - 0.06) < 1e-7
            assert abs(p[1, 0].item() - 0.06) < 1e-7 and abs(p[1, 1].item()) < 1e-7
            near, far = torch.dot(p[100], p[101]), torch.dot(p[100], p[140])
            assert near > 1.5 * far
        elif name.endswith("qkv.weight"):  # 48 of 64 rows of each head's query and key, all values
            query, key, value = p.view(3, 2, 64, 128)
            for part in (query[:, 16:], key[:, 16:], value):
                assert abs(part.std().item() - 0.02) < 5e-4, name
        elif p.numel() > 10_000:
            assert abs(p.std().item() - 0.02) < 5e-4, name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 5}, "5 heads do not divide a width of 32"),
        ({"width": 0}, "width = 0 cannot be built"),
        ({"activation": "gulu"}, 'unknown activation "gulu"; did you mean "gelu"'),
    ],
)
def test_impossible_sizes(change: dict[str, object], message: str) -> None:
    values = {"vocabulary": 9, "width": 32, "layers": 1, "heads": 4, "hidden": 8, **change}
    with pytest.raises(UserError, match=message):
        bert.build(bert.Config(**values))


def test_names_of_families_and_presets() -> None:
    assert preset("bert-mini") == preset("mini") == ("bert", bert.PRESETS["mini"])
    with pytest.raises(UserError, match='unknown preset "bert-mimi"; did you mean "bert-mini"'):
        preset("bert-mimi")
    with pytest.raises(UserError, match='unknown model family "brt"; did you mean "bert"'):
        family("brt")


@pytest.mark.parametrize("question", ["next_sentence", "sentence_order"])
def test_one_head_with_two_questions(question: str, tmp_path: Path) -> None:
    """Both are `cls.seq_relationship` in the file; tianci.json says which it was trained on."""
    made = checkpoint.create("bert", CONFIG, ("masked", question))
    assert made.architecture == "BertForPreTraining"
    checkpoint.write(tmp_path / "model", made)
    assert list(checkpoint.read(tmp_path / "model").heads) == ["masked", question]
    (tmp_path / "model" / "tianci.json").unlink()
    assert list(checkpoint.read(tmp_path / "model").heads) == ["masked", "next_sentence"]


@pytest.mark.parametrize(
    "wrong",
    [{"dropout": 2.0}, {"attention_dropout": float("nan")}, {"norm_eps": -1.0},
     {"initial_std": float("nan")}],
    ids=lambda wrong: next(iter(wrong)),
)  # fmt: skip
def test_settings_that_would_make_no_numbers(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError, match=rf"{next(iter(wrong))} = \S+ cannot be built"):
        bert.Config(**wrong)  # type: ignore[arg-type]
