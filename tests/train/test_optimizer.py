"""Our optimizers beside torch's: the same bits, without torch's compiler."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from tianci.train import memory, optimizer


def parameters() -> list[nn.Parameter]:
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(shape)) for shape in ((7, 5), (5,), (40, 3), (2, 2))]


def gradients(mine: list[nn.Parameter], theirs: list[nn.Parameter], size: float) -> None:
    for a, b in zip(mine[:-1], theirs[:-1], strict=True):  # the last one has nothing to do
        a.grad = size * torch.randn_like(a)
        b.grad = a.grad.clone()


def groups(of: list[nn.Parameter]) -> list[dict[str, object]]:
    return [{"params": of[::2], "weight_decay": 0.1}, {"params": of[1::2], "weight_decay": 0.0}]


def test_adamw_gives_the_bits_and_the_state_of_torch() -> None:
    mine, theirs = parameters(), parameters()
    ours = optimizer.adamw(groups(mine), 1e-2, (0.9, 0.98), 1e-6)
    reference = torch.optim.AdamW(groups(theirs), lr=1e-2, betas=(0.9, 0.98), eps=1e-6, fused=True)
    assert isinstance(ours, optimizer.AdamW)
    for step in range(5):
        for one in (ours, reference):
            for group in one.param_groups:
                group["lr"] = 1e-2 / (1 + step)
        gradients(mine, theirs, 3.0)
        ours.step()
        reference.step()
        ours.zero_grad()
        reference.zero_grad()
        assert all(p.grad is None for p in mine)
    for a, b in zip(mine, theirs, strict=True):
        assert torch.equal(a, b)
        assert ours.state[a].keys() == reference.state[b].keys()
        for name, value in ours.state[a].items():
            assert torch.equal(value, reference.state[b][name]), name


@pytest.mark.parametrize("size", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("limit", [1.0, float("inf")])
def test_clip_gives_the_bits_of_torch(size: float, limit: float) -> None:
    mine, theirs = parameters(), parameters()
    gradients(mine, theirs, size)
    norm = optimizer.clip(mine, limit)
    assert norm == float(nn.utils.clip_grad_norm_(theirs, limit))
    for a, b in zip(mine, theirs, strict=True):
        assert a.grad is None if b.grad is None else torch.equal(a.grad, b.grad)  # type: ignore[arg-type]


def test_clip_tells_what_is_not_a_number() -> None:
    one = parameters()[:1]
    one[0].grad = torch.full_like(one[0], float("nan"))
    assert optimizer.clip(one, 1.0) != optimizer.clip(one, 1.0)


@pytest.mark.parametrize("kind", ["adamw", "bert-adam"])
def test_no_optimizer_imports_the_compiler(kind: str) -> None:
    script = f"""
import sys, torch
from tianci.train import memory, optimizer
from tianci.train.settings import Train
part = torch.nn.Linear(3, 3)
adam = optimizer.make([part], Train(steps=1, optimizer={kind!r}), 1e-3)
part(torch.ones(2, 3)).sum().backward()
optimizer.clip(list(part.parameters()), 1.0)
adam.step()
adam.zero_grad()
sys.exit("torch._dynamo" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_training_keeps_few_kernels_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
    monkeypatch.delenv(name, raising=False)
    memory.keep_few_kernels()
    assert os.environ[name] == "256"
    monkeypatch.setenv(name, "7")
    memory.keep_few_kernels()
    assert os.environ[name] == "7"
