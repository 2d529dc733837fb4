"""Models without weights, as they are built before weights are read from a file."""

from __future__ import annotations

import subprocess
import sys

import torch
from torch import nn

from tianci.models import bert
from tianci.nn import initial

CONFIG = bert.Config(vocabulary=11, width=8, layers=1, heads=2, hidden=16, positions=6)


def test_nothing_is_drawn_and_nothing_is_held() -> None:
    before = torch.get_rng_state()
    with initial.nothing():
        model = bert.build(CONFIG)
        lstm, plain = nn.LSTM(3, 4), nn.Linear(3, 4)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(p.is_meta for part in (model, lstm, plain) for p in part.parameters())
    real = bert.build(CONFIG)  # outside everything is as before
    assert not any(p.is_meta for p in real.parameters())
    shapes = [tuple(p.shape) for p in model.parameters()]
    assert shapes == [tuple(p.shape) for p in real.parameters()]
    assert real.embedding.token.weight.std() > 0


def test_building_it_imports_no_compiler() -> None:
    """torch's compiler takes longer to import than all the rest of a short command."""
    code = (
        "import sys\nfrom tianci.models import bert\nfrom tianci.nn import initial\n"
        "with initial.nothing(): bert.build(bert.Config())\n"
        "slow = {'torch._dynamo', 'sympy'} & set(sys.modules)\n"
        "sys.exit(f'imported {slow}' if slow else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
