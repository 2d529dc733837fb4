"""Models without weights, as they are built before weights are read from a file."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import torch
from torch import nn

from tianci.batch import Batch, Layout
from tianci.models import bert, gpt
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


def test_heads_begin_by_looking_beside_them() -> None:
    """One back, one ahead, two back, two ahead: where tokens say nothing, the place decides."""
    torch.manual_seed(0)
    model = bert.build(bert.Config(vocabulary=9, width=256, layers=3, heads=4, hidden=16))
    with torch.no_grad():
        model.embedding.token.weight.zero_()
        model.embedding.segment.weight.zero_()
    x = model.embedding(Batch(torch.zeros(60, dtype=torch.long), Layout([60])))
    for block in model.stack.blocks[:2]:
        attention = block.attention.part
        query, key, _ = attention.qkv(x).unflatten(1, (3, 4, 64)).unbind(1)
        inner = torch.arange(10, 50)
        for head, offset in enumerate((-1, 1, -2, 2)):
            best = (query[:, head] @ key[:, head].T).argmax(-1)
            found = (best[inner] == inner + offset).float().mean()
            assert found > 0.8, (head, found)  # the slower waves disturb a few places
    third = model.stack.blocks[2].attention.part.qkv.weight
    assert third.abs().max() < 0.2  # the layers above begin as BERT's do


def test_decoders_begin_without_neighbours() -> None:
    """A head that looks ahead would see nothing there."""
    sizes = {"width": 64, "layers": 1, "heads": 2, "positions": 8}
    model = gpt.build(gpt.Config(vocabulary=9, **sizes))
    assert model.stack.blocks[0].attention.part.qkv.weight.abs().max() < 0.2


def test_deep_stacks_begin_as_shallow_ones() -> None:
    """Upper blocks pass on what they get, and learn nevertheless; six blocks begin as ever."""
    sizes = {"vocabulary": 11, "width": 32, "heads": 2, "hidden": 64, "positions": 6}
    batch = Batch(torch.tensor([1, 5, 3, 7]), Layout([4]))
    torch.manual_seed(0)
    deep = bert.build(bert.Config(layers=7, **sizes))
    layers = deep(batch).layers
    assert (layers[2] - layers[1]).abs().max() > 0.01
    for upper in layers[3:]:
        torch.testing.assert_close(upper, layers[2], atol=1e-5, rtol=0)
    deep(batch).last.pow(3).sum().backward()
    top = deep.stack.blocks[6]
    assert top.attention.part.out.weight.grad.abs().max() > 0
    assert top.feed.part.down.weight.grad.abs().max() > 0
    flat = bert.build(bert.Config(layers=6, **sizes))(batch).layers
    assert all((b - a).abs().max() > 0.01 for a, b in pairwise(flat[1:]))


def test_very_wide_models_begin_as_narrow_ones_and_the_input_stays() -> None:
    """At 1,024 tables are a quarter and matrices half as large as BERT's, while the norm keeps what
    blocks get."""
    torch.manual_seed(0)
    sizes = {"vocabulary": 50, "layers": 1, "heads": 2, "hidden": 8, "positions": 6}
    wide, usual = (bert.build(bert.Config(width=n, **sizes)).eval() for n in (1024, 768))
    assert 0.0045 < float(wide.embedding.token.weight.detach().std()) < 0.0055
    assert 0.019 < float(usual.embedding.token.weight.detach().std()) < 0.021
    for model, size in ((wide, 0.01), (usual, 0.02)):
        matrix = model.stack.blocks[0].attention.part.out.weight.detach()
        assert 0.97 * size < float(matrix.std()) < 1.03 * size
    batch = Batch(torch.tensor([1, 5, 3, 7]), Layout([4]))
    before = wide.embedding(batch)
    with torch.no_grad():
        for table in (part for part in wide.embedding.modules() if isinstance(part, nn.Embedding)):
            table.weight *= 4.0
    torch.testing.assert_close(wide.embedding(batch), before, atol=1e-5, rtol=0)
