"""Pooling, embeddings and the fused vocabulary loss, against hand-computed values."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tianci.batch import Batch, Layout
from tianci.errors import UserError
from tianci.nn import vocabulary_loss as fused
from tianci.nn.embedding import SumEmbedding
from tianci.nn.pooling import pool

X = torch.tensor([[1.0, 9.0], [3.0, -1.0], [-5.0, 2.0]])
LAYOUT = Layout([2, 1])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("first", [[1, 9], [-5, 2]]),
        ("last", [[3, -1], [-5, 2]]),
        ("mean", [[2, 4], [-5, 2]]),
        ("max", [[3, 9], [-5, 2]]),
        ("mean-max", [[2, 4, 3, 9], [-5, 2, -5, 2]]),
    ],
)
def test_pooling(kind: str, expected: list[list[float]]) -> None:
    assert pool(X, LAYOUT, kind).tolist() == expected


def test_unknown_pooling_names_the_nearest() -> None:
    with pytest.raises(UserError, match='unknown pooling "maen"; did you mean "mean"'):
        pool(X, LAYOUT, "maen")


def embedding(tokens: int, positions: int, segments: int, width: int) -> SumEmbedding:
    torch.manual_seed(0)
    return SumEmbedding(
        nn.Embedding(tokens, width, dtype=torch.float64),
        nn.Embedding(positions, width, dtype=torch.float64),
        nn.Embedding(segments, width, dtype=torch.float64),
        nn.Identity(),
        dropout=0.0,
    )


def test_the_sum_is_one_product_with_a_stacked_table() -> None:
    """Why the three may be added: one-hot vectors side by side, times the three tables stacked."""
    part = embedding(tokens=11, positions=5, segments=2, width=8)
    batch = Batch.of([[3, 10, 0], [7]], [[0, 1, 1], [0]])
    assert batch.segments is not None
    hot = torch.cat(
        [
            F.one_hot(batch.tokens, 11),
            F.one_hot(batch.layout.position, 5),
            F.one_hot(batch.segments, 2),
        ],
        dim=1,
    ).double()
    stacked = torch.cat([part.token.weight, part.position.weight, part.segment.weight])
    assert hot.sum(1).tolist() == [3.0] * 4
    torch.testing.assert_close(part(batch), hot @ stacked, atol=1e-15, rtol=0)


def test_no_segments_means_the_first() -> None:
    part = embedding(tokens=11, positions=5, segments=2, width=8)
    with_zeros = Batch.of([[3, 1], [4]], [[0, 0], [0]])
    assert torch.equal(part(Batch.of([[3, 1], [4]])), part(with_zeros))


def test_too_long_says_how_long() -> None:
    part = embedding(tokens=11, positions=5, segments=2, width=8)
    with pytest.raises(UserError, match="a text has 6 tokens, but the model reads 5"):
        part(Batch.of([[1] * 6]))


@pytest.mark.parametrize("chunk", [1, 200, 10**9])
def test_fused_loss_equals_cross_entropy(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "CHUNK", chunk)
    torch.manual_seed(1)
    x = torch.randn(37, 6, dtype=torch.float64, requires_grad=True)
    table = torch.randn(50, 6, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(50, dtype=torch.float64, requires_grad=True)
    answers = torch.randint(0, 50, (37,))
    answers[:5] = (x @ table.T + bias).argmax(-1)[:5]
    total, hits = fused.vocabulary_loss(x, table, bias, answers)
    logits = F.linear(x, table, bias)
    expected = F.cross_entropy(logits, answers, reduction="sum")
    torch.testing.assert_close(total, expected)
    assert hits == (logits.argmax(-1) == answers).sum() >= 5
    ours = torch.autograd.grad(total / 3, (x, table, bias))
    theirs = torch.autograd.grad(expected / 3, (x, table, bias))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.usefixtures("bf16")
@pytest.mark.parametrize("chunk", [200, 10**9])
def test_fused_loss_under_autocast(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products in bf16, sums in float32: near the exact loss, gradients in the weights' type."""
    monkeypatch.setattr(fused, "CHUNK", chunk)
    torch.manual_seed(1)
    x = torch.randn(60, 32, requires_grad=True)
    table = (torch.randn(50, 32) / 4).requires_grad_()
    bias = torch.randn(50, requires_grad=True)
    answers = torch.randint(0, 50, (60,))
    with torch.autocast("cpu", torch.bfloat16):
        total, hits = fused.vocabulary_loss(x.bfloat16(), table, bias, answers)
    exact, right = fused.vocabulary_loss(x, table, bias, answers)
    assert total.dtype == torch.float32 and total != exact
    torch.testing.assert_close(total, exact, rtol=2e-3, atol=0)
    assert abs(int(hits) - int(right)) <= 1
    ours = torch.autograd.grad(total, (x, table, bias))
    theirs = torch.autograd.grad(exact, (x, table, bias))
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == torch.float32 and (a - b).norm() / b.norm() < 0.02


def test_fused_loss_survives_large_logits_and_no_rows() -> None:
    x = torch.tensor([[1e4]], requires_grad=True)
    table = torch.tensor([[1.0], [-1.0]])
    total, hits = fused.vocabulary_loss(x, table, torch.zeros(2), torch.tensor([0]))
    assert total == 0 and hits == 1
    nothing = torch.zeros(0, 1, requires_grad=True)
    total, hits = fused.vocabulary_loss(
        nothing, table, torch.zeros(2), torch.zeros(0, dtype=torch.long)
    )
    total.backward()
    assert total == 0 and hits == 0
