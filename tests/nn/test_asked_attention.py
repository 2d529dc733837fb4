"""Attention for the tokens that ask: what all tokens would get, cut down to them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from tianci.batch import Group, Layout
from tianci.nn import asked_attention
from tianci.nn.attention import SelfAttention
from tianci.nn.watching import Watching

LENGTHS = [4, 4, 4, 3, 3, 1]  # begin at 0, 4, 8, 12, 15, 18
ASKED = {
    "the first of each": [0, 4, 8, 12, 15, 18],
    "another of each": [3, 5, 8, 13, 17, 18],
    "the first, not in order": [4, 0, 8, 12, 15, 18],
    "some several times, some never": [1, 3, 9, 2, 13, 14, 12],
    "only the first sequences": [0, 4],
    "one": [17],
    "nobody": [],
}


def attention() -> SelfAttention:
    torch.manual_seed(0)
    part = SelfAttention(6, 2, 0.0).double()
    for parameter in part.parameters():
        torch.nn.init.normal_(parameter)
    return part


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_states_and_gradients_are_those_of_the_whole(asked: list[int]) -> None:
    part, layout = attention(), Layout(LENGTHS)
    at = torch.tensor(asked, dtype=torch.int64)
    x = torch.randn(layout.tokens, 6, dtype=torch.float64, requires_grad=True)
    learned = [x, *part.parameters()]
    whole = part(x, layout)[at]
    loud = torch.randn_like(whole)
    expected = torch.autograd.grad((whole * loud).sum(), learned)
    found = part(x, layout, at)
    torch.testing.assert_close(found, whole, atol=1e-12, rtol=0)
    gradients = torch.autograd.grad((found * loud).sum(), learned)
    for one, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-11, rtol=0)


def test_one_query_per_sequence_makes_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("keys and values were made")

    monkeypatch.setattr(asked_attention, "_several", never)
    part, layout = attention(), Layout(LENGTHS)
    x = torch.randn(layout.tokens, 6, dtype=torch.float64)
    part(x, layout, torch.tensor(ASKED["the first of each"]))
    with pytest.raises(AssertionError, match="keys"):
        part(x, layout, torch.tensor(ASKED["some several times, some never"]))


def test_who_watches_sees_all_queries() -> None:
    part, layout = attention(), Watching(Layout(LENGTHS))
    part(torch.randn(layout.tokens, 6, dtype=torch.float64), layout, torch.tensor([0]))
    assert [tuple(w.shape) for w in layout.weights[0]] == [(2, n, n) for n in LENGTHS]


def by_hand(part: SelfAttention, x: Tensor, asked: list[int], mask: dict[int, Tensor]) -> Tensor:
    """Attention of some tokens, token by token; mask: (H, n) factors of the weights of each."""
    layout, out = Layout(LENGTHS), []
    q, k, v = part.qkv(x).view(len(x), 3, 2, 3).unbind(1)
    for token in asked:
        own = layout.sequence == layout.sequence[token]
        weights = (torch.einsum("hd,khd->hk", q[token], k[own]) / math.sqrt(3)).softmax(-1)
        out.append(torch.einsum("hk,khd->hd", weights * mask[token], v[own]).flatten())
    return part.out(torch.stack(out))


def test_dropped_weights_of_one_query_per_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, part, layout = ASKED["another of each"], attention(), Layout(LENGTHS)
    part.dropout = 0.5
    masks: list[Tensor] = []

    def drop(weights: Tensor, rate: float, training: bool) -> Tensor:
        assert rate == 0.5 and training
        masks.append((torch.rand_like(weights) < 0.5) * 2.0)
        return weights * masks[-1]

    monkeypatch.setattr(asked_attention, "dropout", drop)
    x = torch.randn(layout.tokens, 6, dtype=torch.float64)
    found = part(x, layout, torch.tensor(asked))
    rows = [row for mask in masks for row in mask]
    expected = by_hand(part, x, asked, dict(zip(asked, rows, strict=True)))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", ["the first of each", "some several times, some never"])
def test_gradients_with_dropout(name: str) -> None:
    part, layout, at = attention(), Layout(LENGTHS), torch.tensor(ASKED[name])
    part.dropout = 0.4

    def fixed(x: Tensor) -> Tensor:
        torch.manual_seed(3)
        out: Tensor = part(x, layout, at)
        return out

    x = torch.randn(layout.tokens, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(fixed, (x,), fast_mode=True)


@pytest.mark.parametrize("name", ["the first of each", "some several times, some never"])
def test_dropout_keeps_the_mean(name: str) -> None:
    part, layout, at = attention(), Layout(LENGTHS), torch.tensor(ASKED[name])
    x = torch.randn(layout.tokens, 6, dtype=torch.float64)
    with torch.no_grad():
        plain = part(x, layout, at)
        part.dropout = 0.2
        torch.manual_seed(1)
        several = torch.stack([part(x, layout, at) for _ in range(400)])
    error = several.std(0) / math.sqrt(400)
    assert float(((several.mean(0) - plain).abs() / (error + 1e-9)).max()) < 5
    assert float(several.std(0).max()) > 0


def test_spread_by_hand() -> None:
    groups = [Group(0, 2, 4), Group(8, 2, 3)]
    queries, fill, place = asked_attention.spread(np.array([2, 0, 0, 2, 2]), groups)
    assert queries.groups == (Group(0, 2, 2), Group(4, 2, 3))
    assert place.tolist() == [4, 0, 1, 5, 6]
    assert fill.tolist() == [1, 2, 0, 0, 0, 3, 4, 0, 0, 0]


@pytest.mark.usefixtures("bf16")
@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_bf16_is_near_the_whole(asked: list[int]) -> None:
    part, layout = attention().float(), Layout(LENGTHS)
    at = torch.tensor(asked, dtype=torch.int64)
    x = torch.randn(layout.tokens, 6, requires_grad=True)
    learned = [x, *part.parameters()]
    whole = part(x, layout)[at]
    loud = torch.randn_like(whole)
    expected = torch.autograd.grad((whole * loud).sum(), learned)
    with torch.autocast("cpu", torch.bfloat16):
        found = part(x, layout, at)
        gradients = torch.autograd.grad((found * loud).sum(), learned)
    for one, other in zip((found, *gradients), (whole, *expected), strict=True):
        assert (one - other).norm().item() <= 0.03 * other.norm().item() + 0.02
