"""ALBERT against transformers: all layers, heads and gradients, both directions, loud weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from tests.parity import family
from tests.parity.family import Heads, heads_of, named
from tianci.models import albert

pytest.importorskip("transformers", reason="parity needs the dev extra")

# transformers knows one block for all layers, or one for each
CONFIGS = [
    albert.Config(
        vocabulary=57, width=24, layers=3, heads=3, hidden=40, positions=20, embedding=10
    ),
    albert.Config(
        vocabulary=31, width=8, layers=2, heads=1, hidden=16, positions=9, embedding=16,
        activation="gelu",
    ),
    albert.Config(
        vocabulary=101, width=32, layers=3, heads=8, hidden=64, positions=33, embedding=12,
        sharing="none",
    ),
]  # fmt: skip
PRETRAINING = frozenset({"masked", "sentence_order"})


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"L{c.layers}W{c.width}-{c.sharing}")
@pytest.mark.parametrize("heads", heads_of("albert"), ids=named)
def test_parity(heads: Heads, config: albert.Config, seed: int, tmp_path: Path) -> None:
    family.check_parity("albert", config, heads, seed, tmp_path)


@pytest.mark.parametrize("sharing", ["attention", "feed-forward"])
def test_parity_of_parts_that_are_shared(sharing: str, tmp_path: Path) -> None:
    """transformers has no word for it, and reads a whole block for each layer."""
    config = replace(CONFIGS[0], sharing=sharing)
    ours = family.loud_checkpoint("albert", config, PRETRAINING, 1)
    family.checkpoint.write(tmp_path / "model", ours)
    theirs = family.class_of("albert", PRETRAINING).from_pretrained(tmp_path / "model")
    assert theirs.num_parameters() > ours.parameter_count
    again = family.checkpoint.read(tmp_path / "model")
    assert again.model.config == config and again.parameter_count == ours.parameter_count
    batch = family.batch_for(config, 1)
    family.compare("albert", f"shared {sharing}", again, theirs, batch)


@pytest.mark.parametrize("heads", [PRETRAINING, frozenset({"sequence"})], ids=named)
def test_parity_in_float32(heads: Heads, tmp_path: Path) -> None:
    family.check_float32("albert", CONFIGS[0], heads, tmp_path)


def other_gelu(model: albert.Albert) -> None:
    model.stack.blocks[0].feed.part.activation = F.gelu


def one_layer_less(model: albert.Albert) -> None:
    forward = model.stack.blocks[0].forward
    left = iter(range(2))  # the third time, the block does nothing
    model.stack.blocks[0].forward = lambda x, layout: (
        forward(x, layout) if next(left, None) is not None else x
    )


@pytest.mark.parametrize("plant", [other_gelu, one_layer_less])
def test_a_fault_is_seen(plant: Callable[[albert.Albert], None], tmp_path: Path) -> None:
    family.check_fault_is_seen("albert", CONFIGS[0], PRETRAINING, plant, tmp_path)


@pytest.mark.parametrize("size", list(albert.PRESETS))
def test_parameters_equal_transformers(size: str) -> None:
    ours, theirs = family.parameters_of("albert", albert.PRESETS[size], frozenset({"pooler"}))
    assert ours == theirs
    known = {"base": 11_683_584, "large": 17_683_968, "xlarge": 58_724_864}
    assert known.get(size, ours) == ours


@pytest.mark.parametrize(
    ("sharing", "attentions", "feeds"),
    [("all", 1, 1), ("attention", 1, 12), ("feed-forward", 12, 1), ("none", 12, 12)],
)
def test_what_sharing_saves(sharing: str, attentions: int, feeds: int) -> None:
    with torch.device("meta"):
        model = albert.build(replace(albert.PRESETS["base"], sharing=sharing))
    attention = 4 * (768 * 768 + 768) + 2 * 768
    feed = 2 * 768 * 3072 + 3072 + 768 + 2 * 768
    embedding = (30_000 + 512 + 2) * 128 + 2 * 128 + 128 * 768 + 768
    assert model.parameter_count == embedding + attentions * attention + feeds * feed
