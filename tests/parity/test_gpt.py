"""GPT against transformers: layers, heads, gradients, both directions, loud weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch.nn.functional as F

from tests.parity import family
from tests.parity.family import Heads, heads_of, named
from tianci.errors import UserError
from tianci.models import gpt
from tianci.nn.patterns import Full

transformers = pytest.importorskip("transformers", reason="parity needs the dev extra")

SMALL = {"begin": 1, "end": 2, "pad": 0}
CONFIGS = [
    gpt.Config(57, 24, 2, 3, 20, **SMALL),
    gpt.Config(31, 8, 1, 1, 9, **SMALL),
    gpt.Config(101, 32, 3, 8, 33, activation="relu", norm_eps=1e-3, **SMALL),
]
CAUSAL = frozenset({"causal"})
# transformers gives a model for choices the language head too
HEADS = [heads for heads in heads_of("gpt") if heads != {"choice"}]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"L{c.layers}W{c.width}")
@pytest.mark.parametrize("heads", HEADS, ids=named)
def test_parity(heads: Heads, config: gpt.Config, seed: int, tmp_path: Path) -> None:
    family.check_parity("gpt", config, heads, seed, tmp_path)


@pytest.mark.parametrize("heads", [CAUSAL, frozenset({"sequence"})], ids=named)
def test_parity_in_float32(heads: Heads, tmp_path: Path) -> None:
    family.check_float32("gpt", CONFIGS[0], heads, tmp_path)


def sees_the_future(model: gpt.Gpt) -> None:
    model.stack.blocks[0].attention.part.pattern = Full()


def other_activation(model: gpt.Gpt) -> None:
    model.stack.blocks[1].feed.part.activation = F.gelu  # the exact one, which GPT's "gelu" is not


def wrong_eps(model: gpt.Gpt) -> None:
    model.stack.blocks[0].feed.norm.eps = 1e-2


def matrix_not_turned(model: gpt.Gpt) -> None:
    weight = model.stack.blocks[0].attention.part.out.weight
    weight.data = weight.data.t().contiguous()


FAULTS = [sees_the_future, other_activation, wrong_eps, matrix_not_turned]


@pytest.mark.parametrize("plant", FAULTS)
def test_a_fault_is_seen(plant: Callable[[gpt.Gpt], None], tmp_path: Path) -> None:
    family.check_fault_is_seen("gpt", CONFIGS[0], CAUSAL, plant, tmp_path)


@pytest.mark.parametrize("size", list(gpt.PRESETS))
def test_parameters_equal_transformers(size: str) -> None:
    ours, theirs = family.parameters_of("gpt", gpt.PRESETS[size], CAUSAL)
    assert ours == theirs
    assert {"base": 116_534_784}.get(size, ours) == ours


def test_an_activation_that_gpt_does_not_know() -> None:
    with pytest.raises(UserError, match='unknown activation of GPT "tanh"'):
        gpt.Config(activation="tanh")
