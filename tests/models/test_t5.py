"""T5: what every family must keep (the encoder), and what holds for sources with targets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.models.family import Check, check_family, loud_model
from tianci import checkpoint
from tianci.batch import Batch
from tianci.errors import UserError
from tianci.models import t5
from tianci.nn.relative import buckets

CONFIG = t5.Config(97, 32, 3, 2, heads=4, head_size=8, hidden=64, positions=60)
ENCODER = replace(CONFIG, decoder_layers=0)
PAIRS = [([5, 6, 7], [8, 9]), ([10] * 20, [11, 12, 13, 14]), ([15, 16, 17], [18, 19]), ([4], [3])]


@check_family
def test_family(check: Check, tmp_path: Path) -> None:
    check("t5", ENCODER, tmp_path)


def pairs(numbers: list[int]) -> Batch:
    source = Batch.of([PAIRS[n][0] for n in numbers])
    return replace(source, decoder=Batch.of([PAIRS[n][1] for n in numbers]))


@torch.no_grad()
def test_neighbours_and_order_change_nothing() -> None:
    model = loud_model("t5", CONFIG)
    for order in ([0, 1, 2, 3], [0, 2, 1, 3], [3, 1]):
        together = model(pairs(order)).last.split([len(PAIRS[n][1]) for n in order])
        for number, row in zip(order, together, strict=True):
            torch.testing.assert_close(row, model(pairs([number])).last, rtol=0, atol=1e-5)


@torch.no_grad()
def test_who_sees_whom() -> None:
    model = loud_model("t5", CONFIG)
    one = model(pairs([1])).last
    target = replace(pairs([1]), decoder=Batch.of([[11, 12, 20, 21]]))
    later = model(target).last
    torch.testing.assert_close(one[:2], later[:2], rtol=0, atol=1e-5)  # not the future
    assert (one[2] - later[2]).abs().max() > 1e-2
    source = replace(Batch.of([[10] * 19 + [9]]), decoder=pairs([1]).decoder)
    assert (model(source).last[0] - one[0]).abs().max() > 1e-3  # all of the source


def test_every_parameter_learns_and_has_a_depth() -> None:
    torch.manual_seed(0)
    made = checkpoint.create("t5", CONFIG, ("generation",))
    model, head = made.model, made.heads["generation"]
    batch = pairs([0, 1, 2])
    head(model(batch).last, model.token_table()).logsumexp(-1).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    found = [id(p) for part in model.depth() for p in part.parameters()]
    assert len(found) == len(set(found)) and set(found) == {id(p) for p in model.parameters()}
    assert len(model.depth()) == 1 + 3 + 2
    model.keep_layers(1)
    assert (model.config.layers, model.config.decoder_layers) == (1, 1)
    assert model(batch).last.isfinite().all()


def test_buckets_by_hand() -> None:
    """8 for both sides: 4 behind, 4 ahead; 0 and 1 exact, 2 up to 4, the last from there on."""
    found = buckets(1, 8, 8, 9, both=True)[0].tolist()
    assert found == [0, 5, 6, 6, 6, 7, 7, 7]  # log(4/2)/log(4.5) * 2 = 0.92, log(5/2)... = 1.22
    back = buckets(6, 6, 8, 9, both=False)[5].tolist()
    assert back == [5, 4, 3, 2, 1, 0]
    assert buckets(1, 3, 8, 9, both=False)[0].tolist() == [0, 0, 0]  # nothing lies ahead


def test_first_weights() -> None:
    torch.manual_seed(0)
    sizes = t5.Config(500, 64, 1, 1, heads=4, head_size=32, hidden=256)
    for name, p in t5.build(sizes).named_parameters():
        if name.endswith("qkv.weight"):
            assert abs(p[:128].std().item() - (64 * 32) ** -0.5) < 1e-3, name
            assert abs(p[128:].std().item() - 64**-0.5) < 5e-3, name
        elif name.endswith("down.weight"):
            assert abs(p.std().item() - 256**-0.5) < 3e-3, name
        elif name == "embedding.token.weight":
            assert abs(p.std().item() - 1) < 0.02


def test_wrong_sizes() -> None:
    with pytest.raises(UserError, match="30 buckets cannot be halved twice"):
        t5.Config(buckets=30)
    with pytest.raises(UserError, match='feed is "open-gelu"'):
        t5.build(replace(CONFIG, feed="open-gelu"))
    with pytest.raises(UserError, match="an encoder alone"):
        loud_model("t5", ENCODER)(pairs([0]))
