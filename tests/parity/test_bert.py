"""BERT against transformers: all layers, heads and gradients, both directions, loud weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch.nn.functional as F
from torch import nn

from tests.parity import family
from tests.parity.family import Heads, heads_of, named
from tianci.models import bert

transformers = pytest.importorskip("transformers", reason="parity needs the dev extra")

# layers, width, heads, hidden, vocabulary, positions, activation
CONFIGS = [
    bert.Config(vocabulary, width, layers, heads, hidden, positions, activation=activation)
    for layers, width, heads, hidden, vocabulary, positions, activation in (
        (1, 8, 1, 16, 11, 16, "gelu"),
        (2, 24, 3, 40, 57, 40, "gelu"),
        (3, 32, 8, 64, 101, 33, "gelu_new"),
        (4, 64, 4, 96, 211, 64, "relu"),
        (6, 48, 12, 192, 307, 128, "gelu"),
    )
]
PRETRAINING = frozenset({"masked", "next_sentence"})
OTHERS = [h for h in heads_of("bert", "sentence_order") if h != PRETRAINING]


def sizes(config: bert.Config) -> str:
    return f"L{config.layers}W{config.width}H{config.heads}"


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("config", CONFIGS, ids=sizes)
def test_parity_of_pretraining(config: bert.Config, seed: int, tmp_path: Path) -> None:
    family.check_parity("bert", config, PRETRAINING, seed, tmp_path)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("config", CONFIGS[:3], ids=sizes)
@pytest.mark.parametrize("heads", OTHERS, ids=named)
def test_parity_of_other_heads(
    heads: Heads, config: bert.Config, seed: int, tmp_path: Path
) -> None:
    family.check_parity("bert", config, heads, seed, tmp_path)


@pytest.mark.parametrize("heads", [frozenset({"pooler"}), PRETRAINING], ids=named)
def test_parity_in_float32(heads: Heads, tmp_path: Path) -> None:
    family.check_float32("bert", CONFIGS[4], heads, tmp_path)


def wrong_eps(model: bert.Bert) -> None:
    for part in model.modules():
        if isinstance(part, nn.LayerNorm):
            part.eps = 1e-2


def no_segments(model: bert.Bert) -> None:
    model.embedding.segment.weight.data[1] = model.embedding.segment.weight.data[0]


def positions_moved(model: bert.Bert) -> None:
    table = model.embedding.position.weight
    table.data = table.data.roll(1, 0)


def other_activation(model: bert.Bert) -> None:
    model.stack.blocks[1].feed.part.activation = F.relu


def wrong_scale(model: bert.Bert) -> None:
    attention = model.stack.blocks[0].attention.part
    attention.qkv.weight.data[: attention.out.in_features] *= 1.1  # the queries


FAULTS = [wrong_scale, no_segments, wrong_eps, positions_moved, other_activation]


@pytest.mark.parametrize("plant", FAULTS)
def test_a_fault_is_seen(plant: Callable[[bert.Bert], None], tmp_path: Path) -> None:
    family.check_fault_is_seen("bert", CONFIGS[1], PRETRAINING, plant, tmp_path)


@pytest.mark.parametrize("size", list(bert.PRESETS))
def test_parameters_equal_transformers(size: str) -> None:
    ours, theirs = family.parameters_of("bert", bert.PRESETS[size], PRETRAINING)
    assert ours == theirs
    assert {"base": 110_106_428, "large": 336_226_108}.get(size, ours) == ours
