"""DistilBERT against transformers: layers, heads, gradients, both directions, loud weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch.nn.functional as F

from tests.parity import family
from tests.parity.family import Heads, heads_of, named
from tianci.models import distilbert

pytest.importorskip("transformers", reason="parity needs the dev extra")

CONFIGS = [
    distilbert.Config(vocabulary=57, width=24, layers=2, heads=3, hidden=40, positions=20),
    distilbert.Config(vocabulary=31, width=8, layers=1, heads=1, hidden=16, positions=9, pad=3),
    distilbert.Config(
        vocabulary=101, width=32, layers=3, heads=8, hidden=64, positions=33, activation="relu"
    ),
]
MASKED = frozenset({"masked"})


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"L{c.layers}W{c.width}P{c.pad}")
@pytest.mark.parametrize("heads", heads_of("distilbert"), ids=named)
def test_parity(heads: Heads, config: distilbert.Config, seed: int, tmp_path: Path) -> None:
    family.check_parity("distilbert", config, heads, seed, tmp_path)


@pytest.mark.parametrize("heads", [MASKED, frozenset({"sequence"})], ids=named)
def test_parity_in_float32(heads: Heads, tmp_path: Path) -> None:
    family.check_float32("distilbert", CONFIGS[2], heads, tmp_path)


def positions_moved(model: distilbert.DistilBert) -> None:
    table = model.embedding.position.weight
    table.data = table.data.roll(1, 0)


def other_activation(model: distilbert.DistilBert) -> None:
    model.stack.blocks[1].feed.part.activation = F.relu


@pytest.mark.parametrize("plant", [positions_moved, other_activation])
def test_a_fault_is_seen(plant: Callable[[distilbert.DistilBert], None], tmp_path: Path) -> None:
    family.check_fault_is_seen("distilbert", CONFIGS[0], MASKED, plant, tmp_path)


@pytest.mark.parametrize("size", list(distilbert.PRESETS))
def test_parameters_equal_transformers(size: str) -> None:
    ours, theirs = family.parameters_of("distilbert", distilbert.PRESETS[size], frozenset())
    assert ours == theirs
    assert {"base": 66_362_880}.get(size, ours) == ours
