"""ALBERT: what every family must keep, in all four ways of sharing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.models.family import CHECKS, Check, check_family, loud_model
from tests.parity.family import ragged
from tianci import checkpoint
from tianci.errors import UserError
from tianci.models import albert

CONFIG = albert.Config(
    vocabulary=97, width=32, layers=3, heads=4, hidden=64, positions=60, embedding=12
)
SHARING = ["all", "attention", "feed-forward", "none"]


@check_family
def test_family(check: Check, tmp_path: Path) -> None:
    check("albert", CONFIG, tmp_path)


@pytest.mark.parametrize("sharing", SHARING[1:])
@pytest.mark.parametrize("check", CHECKS[:-1], ids=lambda check: check.__name__)  # not compiled
def test_family_with_less_sharing(check: Check, sharing: str, tmp_path: Path) -> None:
    check("albert", replace(CONFIG, sharing=sharing), tmp_path)


@pytest.mark.parametrize("sharing", SHARING)
def test_what_is_one_object(sharing: str) -> None:
    model = albert.build(replace(CONFIG, sharing=sharing))
    blocks = list(model.stack.blocks)
    assert len(blocks) == (1 if sharing == "all" else 3)
    assert len({id(block.attention) for block in blocks}) == (3 if sharing in SHARING[2:] else 1)
    assert len({id(block.feed) for block in blocks}) == (
        3 if sharing in ("attention", "none") else 1
    )
    assert len(model.depth()) == 1 + len(blocks)


def test_shared_weights_get_the_gradients_of_all_layers() -> None:
    """One block three times equals three blocks with the same weights, whose gradients add up."""
    one = loud_model("albert", CONFIG)
    three = albert.build(replace(CONFIG, sharing="none")).eval()
    three.embedding.load_state_dict(one.embedding.state_dict())
    for block in three.stack.blocks:
        block.load_state_dict(one.stack.blocks[0].state_dict())
    batch = ragged(1, CONFIG.vocabulary, 12)
    outputs = [model(batch).last for model in (one, three)]
    assert torch.equal(*outputs)
    for output in outputs:
        output.square().sum().backward()
    for name, p in one.stack.blocks[0].named_parameters():
        total = sum(b.get_parameter(name).grad for b in three.stack.blocks)
        torch.testing.assert_close(p.grad, total, rtol=1e-4, atol=1e-3)


def test_after_a_step_the_shared_parts_are_still_one(tmp_path: Path) -> None:
    made = checkpoint.create("albert", replace(CONFIG, sharing="attention"))
    checkpoint.write(tmp_path / "model", made)
    model = checkpoint.read(tmp_path / "model").model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    (model(ragged(2, CONFIG.vocabulary, 9)).last[:, 0] ** 2).sum().backward()
    optimizer.step()
    state = model.state_dict()
    name = "stack.blocks.{}.{}.part.{}.weight"
    first, last = (state[name.format(i, "attention", "qkv")] for i in (0, 2))
    assert torch.equal(first, last)
    first, last = (state[name.format(i, "feed", "up")] for i in (0, 2))
    assert not torch.equal(first, last)


def test_copies_that_differ_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    checkpoint.write(folder, checkpoint.create("albert", replace(CONFIG, sharing="attention")))
    tensors = load_file(folder / "model.safetensors")
    tensors["encoder.albert_layer_groups.1.albert_layers.0.attention.dense.bias"] += 1
    (folder / "manifest.json").unlink()
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(UserError, match=r"attention\.part\.out\.bias is shared by several layers"):
        checkpoint.read(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"sharing": "none"}))  # the way out
    assert checkpoint.read(folder).model.config.sharing == "none"


@pytest.mark.parametrize(
    ("groups", "told", "sharing"),
    [
        (1, None, "all"),
        (12, None, "none"),
        (12, "attention", "attention"),
        (12, "all", "none"),  # the weights decide
        (1, "attention", "all"),
    ],
)
def test_sharing_in_public_settings(groups: int, told: str | None, sharing: str) -> None:
    values = {"model_type": "albert", "num_hidden_groups": groups, "sharing": told}
    _, config, _ = checkpoint.config_from_public(Path("config.json"), values)
    assert config.sharing == sharing
    assert (config.width, config.heads) == (4096, 64)  # xxlarge: what transformers takes


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_hidden_groups": 3}, "num_hidden_groups is 3, but tianci only knows 1 and 12"),
        ({"inner_group_num": 2}, "inner_group_num is 2, but tianci only knows 1"),
        ({"sharing": "some"}, "sharing: invalid enum value 'some'"),
        ({"embedding_size": 0}, "a model with embedding = 0 cannot be built"),
    ],
)
def test_bad_settings(values: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=f"config.json: {message}"):
        checkpoint.config_from_public(Path("config.json"), {"model_type": "albert", **values})
