"""Matrices that lie the other way round in memory say the same."""

from __future__ import annotations

import torch
from torch import nn

from tianci.nn.inputs_first import lay_inputs_first


def test_same_values_other_memory() -> None:
    torch.manual_seed(0)
    part = nn.Sequential(nn.Embedding(7, 5), nn.Linear(5, 9), nn.LayerNorm(9))
    before = {name: p.detach().clone() for name, p in part.named_parameters()}
    tokens = torch.tensor([3, 0, 6])
    said = part(tokens)
    with torch.inference_mode():
        lay_inputs_first(part)
    where = part[1].weight.data_ptr()
    assert part[0].weight.stride() == (1, 7) and part[1].weight.stride() == (1, 9)
    assert all(torch.equal(p, before[name]) for name, p in part.named_parameters())
    torch.testing.assert_close(part(tokens), said, atol=1e-6, rtol=0)
    lay_inputs_first(part)
    assert part[1].weight.data_ptr() == where  # once is enough
    part(tokens).sum().backward()  # what was made in inference mode would refuse
    assert part[1].weight.grad is not None
