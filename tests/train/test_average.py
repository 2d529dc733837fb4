"""The average of weights: what it is, that it is put in place and taken out again, and kept."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tianci import checkpoint
from tianci.models import bert
from tianci.train import state
from tianci.train.average import AVERAGE, averaged, follow
from tianci.train.optimizer import AdamW, BertAdam

CONFIG = bert.Config(vocabulary=20, width=8, layers=1, heads=2, hidden=8, positions=8)


@pytest.mark.parametrize("kind", [AdamW, BertAdam])
def test_it_follows_the_weights(kind: type[AdamW] | type[BertAdam]) -> None:
    torch.manual_seed(0)
    moved, still = nn.Parameter(torch.randn(3, 2)), nn.Parameter(torch.randn(2))
    optimizer = kind([{"params": [moved, still]}], lr=0.1, betas=(0.9, 0.999), eps=1e-8)
    expected = None
    for step in range(1, 60):
        moved.grad = torch.randn(3, 2)
        optimizer.step()
        follow(optimizer, 0.8, step)
        stays = min(0.8, (1 + step) / (10 + step))
        now = moved.detach().clone()
        expected = now if expected is None else stays * expected + (1 - stays) * now
        assert torch.allclose(optimizer.state[moved][AVERAGE], expected, atol=1e-6)
    assert expected is not None and not torch.allclose(expected, moved, atol=1e-3)
    assert AVERAGE not in optimizer.state[still]  # it has never learned
    last = moved.detach().clone()
    with averaged(optimizer):
        assert torch.allclose(moved, expected, atol=1e-6)
    assert torch.equal(moved, last)
    assert torch.allclose(optimizer.state[moved][AVERAGE], expected, atol=1e-6)


def test_it_is_kept_with_the_moments(tmp_path: Path) -> None:
    model = checkpoint.create("bert", CONFIG)
    parameters = list(model.model.parameters())

    def made() -> AdamW:
        return AdamW([{"params": parameters}], lr=0.1, betas=(0.9, 0.999), eps=1e-8)

    optimizer = made()
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    follow(optimizer, 0.5, 1)
    optimizer.step()
    follow(optimizer, 0.5, 2)
    folder = state.save(tmp_path, model, optimizer, state.State(step=2), keep=1)
    again = made()
    state.restore(folder, again)
    for parameter in parameters:
        kept, read = optimizer.state[parameter], again.state[parameter]
        assert kept.keys() == read.keys() and AVERAGE in read
        assert all(torch.equal(kept[name], read[name]) for name in kept)
