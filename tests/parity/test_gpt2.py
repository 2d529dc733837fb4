"""GPT-2 against transformers: layers, heads, gradients, both directions, loud weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from tests.parity import family
from tests.parity.family import Heads, heads_of, named
from tianci import checkpoint
from tianci.errors import UserError
from tianci.files import read_json, write_json
from tianci.models import gpt2
from tianci.nn.patterns import Full

transformers = pytest.importorskip("transformers", reason="parity needs the dev extra")

SMALL = {"begin": 1, "end": 2, "pad": 0}
CONFIGS = [
    gpt2.Config(57, 24, 2, 3, 40, 20, **SMALL),
    gpt2.Config(31, 8, 1, 1, 16, 9, **SMALL),
    gpt2.Config(101, 32, 3, 8, 64, 33, activation="relu", norm_eps=1e-3, **SMALL),
]
CAUSAL = frozenset({"causal"})
# transformers gives a model for choices the language head too
HEADS = [heads for heads in heads_of("gpt2") if heads != {"choice"}]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"L{c.layers}W{c.width}")
@pytest.mark.parametrize("heads", HEADS, ids=named)
def test_parity(heads: Heads, config: gpt2.Config, seed: int, tmp_path: Path) -> None:
    family.check_parity("gpt2", config, heads, seed, tmp_path)


@pytest.mark.parametrize("heads", [CAUSAL, frozenset({"sequence"})], ids=named)
def test_parity_in_float32(heads: Heads, tmp_path: Path) -> None:
    family.check_float32("gpt2", CONFIGS[0], heads, tmp_path)


def sees_the_future(model: gpt2.Gpt2) -> None:
    model.stack.blocks[0].attention.part.pattern = Full()


def other_activation(model: gpt2.Gpt2) -> None:
    model.stack.blocks[1].feed.part.activation = F.gelu  # the exact one


def no_last_norm(model: gpt2.Gpt2) -> None:
    model.stack.norm = torch.nn.Identity()


def matrix_not_turned(model: gpt2.Gpt2) -> None:
    weight = model.stack.blocks[0].attention.part.out.weight
    weight.data = weight.data.t().contiguous()


FAULTS = [sees_the_future, other_activation, no_last_norm, matrix_not_turned]


@pytest.mark.parametrize("plant", FAULTS)
def test_a_fault_is_seen(plant: Callable[[gpt2.Gpt2], None], tmp_path: Path) -> None:
    family.check_fault_is_seen("gpt2", CONFIGS[0], CAUSAL, plant, tmp_path)


@pytest.mark.parametrize("size", list(gpt2.PRESETS))
def test_parameters_equal_transformers(size: str) -> None:
    ours, theirs = family.parameters_of("gpt2", gpt2.PRESETS[size], CAUSAL)
    assert ours == theirs
    known = {"base": 124_439_808, "large": 354_823_168, "xl": 1_557_611_200}
    assert known.get(size, ours) == ours


def test_files_as_openai_wrote_them(tmp_path: Path) -> None:
    """No prefix, the buffers of old versions, the tied table, no n_inner."""
    from safetensors.torch import load_file, save_file

    made = family.loud_checkpoint("gpt2", replace(CONFIGS[0], hidden=96), CAUSAL, 0)
    checkpoint.write(tmp_path / "model", made)
    file = tmp_path / "model" / "model.safetensors"
    tensors = {n.removeprefix("transformer."): t for n, t in load_file(file).items()}
    tensors["h.0.attn.bias"] = torch.ones(1, 1, 20, 20).tril()
    tensors["h.1.attn.masked_bias"] = torch.tensor(-1e4)
    tensors["lm_head.weight"] = tensors["wte.weight"].clone()
    save_file(tensors, file)
    values = read_json(tmp_path / "model" / "config.json")
    write_json(tmp_path / "model" / "config.json", values | {"n_inner": None})
    for name in ("tianci.json", "manifest.json"):
        (tmp_path / "model" / name).unlink()
    again = checkpoint.read(tmp_path / "model")
    assert again.model.config == made.model.config and list(again.heads) == ["causal"]
    for name, tensor in made.model.state_dict().items():
        assert torch.equal(tensor, again.model.state_dict()[name])

    tensors["h.0.mlp.c_fc.weight"] = tensors["h.0.mlp.c_fc.weight"].t().contiguous()
    save_file(tensors, file)
    with pytest.raises(UserError, match=r"c_fc.weight has shape \(96, 24\), .* wants \(24, 96\)"):
        checkpoint.read(tmp_path / "model")


def test_residual_projections_begin_small() -> None:
    torch.manual_seed(0)
    model = gpt2.build(gpt2.Config(vocabulary=99, width=128, layers=8, heads=2, hidden=512))
    for name, p in model.named_parameters():
        if name.endswith(("out.weight", "down.weight")):
            assert abs(p.std().item() - 0.02 / 4) < 2e-4, name  # sqrt(2 * 8) = 4
        elif name.endswith(("qkv.weight", "up.weight")):
            assert abs(p.std().item() - 0.02) < 5e-4, name
