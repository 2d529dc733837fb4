"""The BiLSTM over packed tokens against torch's own, one sequence at a time."""

from __future__ import annotations

import torch

from tianci.batch import Layout
from tianci.nn.recurrent import PackedLSTM

LENGTHS = [3, 7, 1, 7, 4]


def lstm() -> PackedLSTM:
    torch.manual_seed(0)
    return PackedLSTM(6, 5).double()


def inputs() -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [torch.randn(length, 6, dtype=torch.float64) for length in LENGTHS]


def test_each_sequence_as_if_it_were_alone() -> None:
    part, sequences = lstm(), inputs()
    found = part(torch.cat(sequences), Layout(LENGTHS)).split(LENGTHS)
    for x, ours in zip(sequences, found, strict=True):
        torch.testing.assert_close(ours, part.lstm(x[None])[0][0])


def test_the_order_in_the_batch_does_not_matter() -> None:
    part, sequences = lstm(), inputs()
    usual = part(torch.cat(sequences), Layout(LENGTHS)).split(LENGTHS)
    for order in ([4, 3, 2, 1, 0], [1, 3, 4, 0, 2], [2, 0, 4, 3, 1]):
        lengths = [LENGTHS[n] for n in order]
        found = part(torch.cat([sequences[n] for n in order]), Layout(lengths)).split(lengths)
        for n, ours in zip(order, found, strict=True):
            torch.testing.assert_close(ours, usual[n])


def test_both_directions_are_read() -> None:
    part = lstm()
    x = torch.randn(4, 6, dtype=torch.float64)
    before = part(x, Layout([4]))
    x[3] += 1
    after = part(x, Layout([4]))
    same = torch.isclose(before, after).all(1)
    forward, backward = before[0, :5], before[0, 5:]
    assert torch.equal(forward, after[0, :5])  # the first token has not read the last one yet
    assert not torch.allclose(backward, after[0, 5:])
    assert not same.any()


def test_learns_under_bf16() -> None:
    part = PackedLSTM(6, 5)
    x = torch.randn(5, 6, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        out = part(torch.nn.functional.linear(x, torch.eye(6)), Layout([3, 2]))
        out.float().sum().backward()
    assert x.grad is not None and x.grad.abs().sum() > 0
    torch.testing.assert_close(out.float(), part(x, Layout([3, 2])), atol=0.02, rtol=0.02)
