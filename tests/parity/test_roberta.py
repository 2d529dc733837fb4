"""RoBERTa against transformers: all layers, heads and gradients, both directions, loud weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from torch import nn

from tests.parity import family
from tests.parity.family import Heads, heads_of, named
from tianci.models import roberta

pytest.importorskip("transformers", reason="parity needs the dev extra")

CONFIGS = [
    roberta.Config(vocabulary=57, width=24, layers=2, heads=3, hidden=40, positions=20),
    # a vocabulary of our own has its padding at 0: positions then begin at 1
    roberta.Config(vocabulary=31, width=8, layers=1, heads=1, hidden=16, positions=9, pad=0),
    roberta.Config(
        vocabulary=101, width=32, layers=3, heads=8, hidden=64, positions=33, pad=4, segments=2,
        activation="gelu_new",
    ),
]  # fmt: skip
MASKED = frozenset({"masked"})


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"L{c.layers}W{c.width}P{c.pad}")
@pytest.mark.parametrize("heads", heads_of("roberta"), ids=named)
def test_parity(heads: Heads, config: roberta.Config, seed: int, tmp_path: Path) -> None:
    family.check_parity("roberta", config, heads, seed, tmp_path)


@pytest.mark.parametrize("heads", [MASKED, frozenset({"sequence"})], ids=named)
def test_parity_in_float32(heads: Heads, tmp_path: Path) -> None:
    family.check_float32("roberta", CONFIGS[2], heads, tmp_path)


def wrong_offset(model: roberta.Roberta) -> None:
    model.embedding.position.offset = 1


def wrong_eps(model: roberta.Roberta) -> None:
    for part in model.modules():
        if isinstance(part, nn.LayerNorm):
            part.eps = 1e-3


@pytest.mark.parametrize("plant", [wrong_offset, wrong_eps])
def test_a_fault_is_seen(plant: Callable[[roberta.Roberta], None], tmp_path: Path) -> None:
    family.check_fault_is_seen("roberta", CONFIGS[0], MASKED, plant, tmp_path)


@pytest.mark.parametrize("size", list(roberta.PRESETS))
def test_parameters_equal_transformers(size: str) -> None:
    ours, theirs = family.parameters_of("roberta", roberta.PRESETS[size], frozenset({"pooler"}))
    assert ours == theirs
    assert {"base": 124_645_632, "large": 355_359_744}.get(size, ours) == ours
