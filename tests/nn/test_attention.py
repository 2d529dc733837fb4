"""attend(): against a plain softmax by hand, whatever the lengths; and which kernel is asked on a
GPU."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from tianci.batch import Layout
from tianci.nn import attention, buckets, dropped_attention
from tianci.nn.dropout import dropout
from tianci.nn.patterns import Causal, Full, Pattern

RAGGED = [3, 3, 1, 7, 2, 7]


def by_hand(q: Tensor, k: Tensor, v: Tensor, lengths: list[int], causal: bool) -> Tensor:
    outputs = []
    for a, b, c in zip(*(x.split(lengths) for x in (q, k, v)), strict=True):
        scores = torch.einsum("qhd,khd->hqk", a, b) / math.sqrt(q.shape[-1])
        if causal:
            later = torch.ones(len(a), len(a)).triu(1).bool()
            scores = scores.masked_fill(later, float("-inf"))
        outputs.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1), c))
    return torch.cat(outputs)


@pytest.mark.parametrize("pattern", [Full(), Causal()], ids=["full", "causal"])
@pytest.mark.parametrize("lengths", [RAGGED, [4, 4], [1], [1, 1, 1]], ids=str)
def test_equals_softmax_by_hand(lengths: list[int], pattern: Pattern) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(sum(lengths), 2, 8, requires_grad=True) for _ in range(3))
    ours = attention.attend(q, k, v, Layout(lengths), pattern)
    expected = by_hand(q, k, v, lengths, pattern.causal)
    torch.testing.assert_close(ours, expected, atol=1e-6, rtol=1e-5)
    weights = torch.randn_like(ours)
    mine = torch.autograd.grad((ours * weights).sum(), (q, k, v), retain_graph=True)
    theirs = torch.autograd.grad((expected * weights).sum(), (q, k, v))
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_empty_batch() -> None:
    nothing = torch.zeros(0, 2, 8)
    assert attention.attend(nothing, nothing, nothing, Layout([]), Full()).shape == (0, 2, 8)


class _Pretends(Tensor):
    """A tensor that says it lies on a GPU: as far as the dispatch can be tested without one."""

    is_cuda = True  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("pattern", "window"), [(Full(), (-1, -1)), (Causal(), (-1, 0))], ids=["full", "causal"]
)
def test_cuda_calls_the_variable_length_kernel(
    pattern: Pattern, window: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def kernel(query, key, value, starts_q, starts_k, longest_q, longest_k, *, window_size):
        calls.append((starts_q.tolist(), starts_q.dtype, longest_q, longest_k, window_size))
        assert starts_k is starts_q
        return query

    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", kernel)
    x = torch.zeros(6, 2, 8, dtype=torch.bfloat16).as_subclass(_Pretends)
    out = attention.attend(x, x, x, Layout([2, 3, 1]), pattern)
    assert out.shape == x.shape
    assert calls == [([0, 2, 5, 6], torch.int32, 3, 3, window)]


def test_the_real_kernel_takes_these_arguments() -> None:
    """Its fake (shape-only) version runs without a GPU, so a changed signature is noticed here."""
    import inspect

    from torch.nn.attention.varlen import varlen_attn

    names = list(inspect.signature(varlen_attn).parameters)
    assert names[:7] == ["query", "key", "value", "cu_seq_q", "cu_seq_k", "max_q", "max_k"]
    assert "window_size" in names


def dropped_by_hand(
    q: Tensor, k: Tensor, v: Tensor, lengths: list[int], causal: bool, rate: float,
    dice: torch.dtype | None = None, step: int = 1,
) -> Tensor:  # fmt: skip
    """Plain attention that draws as attend does: all weights at once, rows before heads, in squares
    whose sides are rounded up to `step`."""
    outputs = []
    sides = [-(-n // step) * step for n in lengths]
    sizes = [q.shape[1] * side * side for side in sides]
    masks = dropout(torch.ones(sum(sizes), dtype=dice or q.dtype), rate, True).to(q.dtype)
    rows = zip(*(x.split(lengths) for x in (q, k, v)), masks.split(sizes), sides, strict=True)
    for *row, mask, side in rows:
        a, b, c = (x.transpose(0, 1) for x in row)
        scores = a @ b.mT / math.sqrt(q.shape[-1])
        if causal:
            scores = scores.masked_fill(torch.ones(scores.shape[1:]).triu(1).bool(), -torch.inf)
        seen = mask.view(-1, side, side)[:, : scores.shape[1], : scores.shape[2]]
        outputs.append((scores.softmax(-1) * seen @ c).transpose(0, 1))
    return torch.cat(outputs)


@pytest.mark.parametrize("pattern", [Full(), Causal()], ids=["full", "causal"])
@pytest.mark.parametrize("lengths", [[3, 5, 1, 7], [200, 190]], ids=str)  # the last are stretched
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_dropped_weights_equal_a_fixed_mask_by_hand(
    lengths: list[int], pattern: Pattern, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(sum(lengths), 2, 8, dtype=dtype, requires_grad=True) for _ in range(3))
    torch.manual_seed(1)
    ours = attention.attend(q, k, v, Layout(lengths), pattern, dropout=0.3)
    torch.manual_seed(1)
    expected = dropped_by_hand(q, k, v, lengths, pattern.causal, 0.3, step=buckets.STEP)
    torch.testing.assert_close(ours, expected)
    weights = torch.randn_like(ours)
    mine = torch.autograd.grad((ours * weights).sum(), (q, k, v))
    theirs = torch.autograd.grad((expected * weights).sum(), (q, k, v))
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("piece", [1, 150, 1 << 20])
def test_dropped_gradients_do_not_depend_on_the_pieces(
    piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dropped_attention, "PIECE", piece)

    def fixed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        torch.manual_seed(3)
        return attention.attend(q, k, v, Layout([4, 4, 4, 2]), Full(), dropout=0.4)

    torch.manual_seed(2)
    packed = torch.randn(14, 3, 2, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: fixed(*x.unbind(1)), (packed,), fast_mode=True)


def test_dropped_weights_keep_the_mean_and_are_dropped_at_the_rate() -> None:
    torch.manual_seed(4)
    length, heads = 256, 4
    q, k = torch.randn(2, 4 * length, heads, 8).unbind(0)
    v = torch.eye(length).repeat(4, 1)[:, None].expand(-1, heads, -1)  # the weights come out
    q, k = (torch.nn.functional.pad(x, (0, length - 8)) for x in (q, k))
    layout = Layout([length] * 4)
    plain = attention.attend(q, k, v, layout, Full())
    out = attention.attend(q, k, v, layout, Full(), dropout=0.1)
    n = out.numel()
    assert abs(int((out == 0).sum()) - 0.1 * n) < 4.5 * math.sqrt(0.09 * n)
    torch.testing.assert_close(out, torch.where(out == 0, 0.0, plain / 0.9))
    means = attention.attend(q, k, torch.ones_like(v), layout, Full(), dropout=0.1)
    assert float(means.mean()) == pytest.approx(1.0, abs=2e-3)


def test_dropped_layers_differ() -> None:
    x = torch.randn(64, 2, 8)
    torch.manual_seed(5)
    first, second = (attention.attend(x, x, x, Layout([64]), Full(), 0.1) for _ in range(2))
    torch.manual_seed(5)
    assert torch.equal(attention.attend(x, x, x, Layout([64]), Full(), 0.1), first)
    assert not torch.equal(first, second)


@pytest.mark.usefixtures("bf16")
@pytest.mark.parametrize("pattern", [Full(), Causal()], ids=["full", "causal"])
@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("piece", [1, 1 << 20], ids=["one by one", "together"])
def test_bf16_is_written_out_and_near_float32(
    piece: int, rate: float, pattern: Pattern, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dropped_attention, "PIECE", piece)
    lengths = [48, 40, 37, 33, 17, 17, 7, 64, 1]  # filled up to 48, 32, 16, 64; sorted or not
    torch.manual_seed(6)
    half = torch.randn(sum(lengths), 3, 2, 8).bfloat16().requires_grad_()
    torch.manual_seed(7)
    with torch.autocast("cpu", torch.bfloat16):
        ours = attention.attend(*half.unbind(1), Layout(lengths), pattern, rate)
    assert ours.dtype == torch.bfloat16 and "DroppedAttention" in type(ours.grad_fn).__name__
    weights = torch.randn(ours.shape)
    (mine,) = torch.autograd.grad((ours * weights).sum(), half)
    full = half.detach().float().requires_grad_()
    torch.manual_seed(7)
    expected = dropped_by_hand(
        *full.unbind(1), lengths, pattern.causal, rate, torch.bfloat16, buckets.STEP
    )
    (theirs,) = torch.autograd.grad((expected * weights).sum(), full)
    for a, b in ((ours, expected), (mine, theirs)):
        for x, y in zip(a.split(lengths), b.split(lengths), strict=True):  # each sequence by itself
            far = (x.detach().float() - y.detach()).norm()
            assert far.item() < 0.012 * y.norm().item() + 0.01  # bf16 has 8 bits
        assert not torch.equal(a.detach().float(), b.detach())


def test_buckets_hold_every_token_once() -> None:
    lengths = (128, 120, 119, 113, 112, 40, 40, 39, 3, 2, 1, 500)
    found = buckets.buckets(lengths, 4 * 128**2)
    assert [(b.rows, b.length) for b in found] == [
        (4, 128), (1, 112), (2, 48), (1, 48), (2, 16), (1, 16), (1, 512)
    ]  # fmt: skip
    tokens = torch.arange(sum(lengths))
    assert [b.start for b in found] == np.cumsum([0, *(b.tokens for b in found)])[:-1].tolist()
    for b in found:
        rectangle = b.filled(tokens)
        assert torch.equal(rectangle[b.real], tokens[b.start : b.start + b.tokens])
        assert int(b.empty.sum()) == b.rows * b.length - b.tokens
        assert (b.places is None) == (b.tokens == b.rows * b.length)


def test_dropout_and_float32_stay_on_sdpa(monkeypatch: pytest.MonkeyPatch) -> None:
    def kernel(*_: object, **__: object) -> None:
        raise AssertionError("the variable-length kernel knows neither")

    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", kernel)
    x = torch.randn(4, 1, 8).as_subclass(_Pretends)
    attention.attend(x, x, x, Layout([4]), Full())
    attention.attend(x.bfloat16(), x.bfloat16(), x.bfloat16(), Layout([4]), Full(), dropout=0.5)
