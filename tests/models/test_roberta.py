"""RoBERTa: what every family must keep, and what `positions` and segments mean."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.models.family import Check, check_family, loud_model
from tests.parity.family import ragged
from tianci import checkpoint
from tianci.errors import UserError
from tianci.models import roberta

CONFIG = roberta.Config(vocabulary=97, width=32, layers=3, heads=4, hidden=64, positions=60)


@check_family
def test_family(check: Check, tmp_path: Path) -> None:
    check("roberta", CONFIG, tmp_path)


def test_segments_are_ignored() -> None:
    model, batch = loud_model("roberta", CONFIG), ragged(1, CONFIG.vocabulary, 12)
    assert batch.segments is not None and batch.segments.max() == 1
    assert torch.equal(model(batch).last, model(replace(batch, segments=None)).last)
    two = loud_model("roberta", replace(CONFIG, segments=2))  # there they are read
    assert not torch.equal(two(batch).last, two(replace(batch, segments=None)).last)


@pytest.mark.parametrize(("pad", "table"), [(1, 514), (0, 513), (3, 516)])
def test_positions_are_the_tokens_that_can_be_read(pad: int, table: int, tmp_path: Path) -> None:
    config = replace(roberta.PRESETS["tiny"], vocabulary=20, pad=pad)
    made = checkpoint.create("roberta", config)
    position = made.model.embedding.position
    assert position.weight.shape == (table, 128)
    assert torch.equal(position(torch.tensor([0, 511])), position.weight[[pad + 1, table - 1]])
    checkpoint.write(tmp_path / "model", made)
    public = json.loads((tmp_path / "model" / "config.json").read_text())
    assert public["max_position_embeddings"] == table
    assert checkpoint.read(tmp_path / "model").model.config == config


def test_settings_that_a_file_leaves_out() -> None:
    """As in the file of roberta-base, and as transformers takes it where nothing is said."""
    path = Path("config.json")
    base = {"model_type": "roberta", "max_position_embeddings": 514, "type_vocab_size": 1,
            "layer_norm_eps": 1e-05, "pad_token_id": 1}  # fmt: skip
    assert checkpoint.config_from_public(path, base)[1] == roberta.PRESETS["base"]
    _, bare, extra = checkpoint.config_from_public(path, {"model_type": "roberta", "x": 1})
    assert (bare.positions, bare.segments, bare.norm_eps) == (510, 2, 1e-12)
    assert extra == {"x": 1}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (2, "config.json: a model with positions = 0 cannot be built"),
        ("many", "config.json: max_position_embeddings: expected `int`, got `str`"),
    ],
)
def test_bad_positions(value: object, message: str) -> None:
    values = {"model_type": "roberta", "max_position_embeddings": value}
    with pytest.raises(UserError, match=message):
        checkpoint.config_from_public(Path("config.json"), values)


def test_no_head_for_next_sentence() -> None:
    with pytest.raises(UserError, match="roberta has no head for next_sentence; it has: .*masked"):
        checkpoint.create("roberta", CONFIG, ("masked", "next_sentence"))
