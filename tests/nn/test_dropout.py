"""Dropout: rate and scale, independence, reproducibility, gradients, whatever the dtype."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tianci.nn import dropout as module
from tianci.nn.dropout import BLOCK, SHIFT, draw, dropout, stretch, zeroed

LARGE = (1000, 512)  # stretched: 16 blocks
SMALL = (7, 11)  # every word is drawn


def dropped(shape: tuple[int, ...], rate: float, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    return dropout(torch.ones(shape), rate, True) == 0


def correlation(a: Tensor, b: Tensor) -> float:
    return float(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]).double())[0, 1])


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_rate_within_binomial_bounds(rate: float, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    y = dropout(torch.ones(LARGE, dtype=dtype), rate, True)
    n = y.numel()
    zeros = int((y == 0).sum())
    assert abs(zeros - rate * n) < 4.5 * math.sqrt(n * rate * (1 - rate))
    expected = torch.ones((), dtype=dtype) * (1 / (1 - rate))
    assert set(y.unique().tolist()) == {0.0, expected.item()}


def test_rate_of_many_small_tensors() -> None:
    torch.manual_seed(2)
    n = 3000 * math.prod(SMALL)
    zeros = sum(int((dropout(torch.ones(SMALL), 0.1, True) == 0).sum()) for _ in range(3000))
    assert abs(zeros - 0.1 * n) < 4.5 * math.sqrt(n * 0.09)


def test_no_row_column_or_block_is_special() -> None:
    """Rates of rows, columns and blocks scatter as independent draws do."""
    seen = torch.stack([dropped((512, 512), 0.1, seed) for seed in range(20)]).double()
    for means in (seen.mean((0, 1)), seen.mean((0, 2)), seen.view(20, -1, BLOCK).mean(2).flatten()):
        count = seen.numel() / len(means)
        sigma = (means - 0.1) / math.sqrt(0.09 / count)
        assert abs(float(sigma.mean())) < 4.5 / math.sqrt(len(means)) + 0.3
        assert float(sigma.abs().max()) < 5.5
        assert 0.7 < float(sigma.std()) < 1.3


def test_neighbours_and_blocks_are_uncorrelated() -> None:
    mask = dropped((64 * BLOCK // 512, 512), 0.1, 3).flatten()
    bound = 4.5 / math.sqrt(len(mask))
    for lag in (1, 2, 511, 512, SHIFT, BLOCK, BLOCK - SHIFT, BLOCK + SHIFT, 2 * (BLOCK - SHIFT)):
        # a lag of BLOCK - SHIFT meets the same first word, of BLOCK the same second one: none on
        # average, but in one draw up to about 0.005 (2.7 times as scattered as independent ones)
        assert abs(correlation(mask[:-lag], mask[lag:])) < bound * (3 if lag > 512 else 1), lag


def test_calls_and_seeds_differ_and_repeat() -> None:
    torch.manual_seed(5)
    x = torch.ones(LARGE)
    first, second = dropout(x, 0.1, True), dropout(x, 0.1, True)
    torch.manual_seed(5)
    assert torch.equal(dropout(x, 0.1, True), first)
    assert abs(correlation(first, second)) < 4.5 / math.sqrt(x.numel())
    torch.manual_seed(6)
    other = dropout(x, 0.1, True)
    assert abs(correlation(first, other)) < 4.5 / math.sqrt(x.numel())


def test_same_dice_whatever_the_number_of_threads() -> None:
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = dropped(LARGE, 0.1)
        torch.set_num_threads(2)
        assert torch.equal(dropped(LARGE, 0.1), one)
    finally:
        torch.set_num_threads(threads)


def test_stretch_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 4)
    monkeypatch.setattr(module, "SHIFT", 3)
    first = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 0, 0])
    second = torch.tensor([0, 1, 0, 3])
    words = stretch([first, second], (2, 5))
    expected = [1, 2 ^ 1, 4, 8 ^ 3, 8, 16 ^ 1, 32, 64 ^ 3, 64, 128 ^ 1]  # 0.., 3.., 6.. of first
    assert words.tolist() == [expected[:5], expected[5:]]


def test_no_two_elements_meet_the_same_pair_of_words() -> None:
    shape = (5 * BLOCK + 17,)
    first, second = draw(shape, torch.float64)
    first.copy_(torch.arange(len(first)))
    second.copy_(torch.arange(len(second)) << 32)
    assert len(stretch([first, second], shape).unique()) == math.prod(shape)


def test_zeroed_by_hand() -> None:
    dice = torch.tensor([-(2**31), -(2**31) + 2**30 - 1, -(2**31) + 2**30, 2**31 - 1]).int()
    x = torch.tensor([1.0, -2.0, 3.0, float("nan")])
    assert zeroed(x, dice, 0.25)[:3].tolist() == [0.0, 0.0, 3.0]
    assert zeroed(x, dice.flip(0), 0.25).tolist()[0] != 0  # NaN is kept, but...
    assert zeroed(x.flip(0), dice, 0.25).tolist() == [0.0, 0.0, -2.0, 1.0]  # ...drops as any other
    assert zeroed(x, dice, 1e-12)[:3].tolist() == [0.0, -2.0, 3.0]  # never below one word in 2^32


@pytest.mark.parametrize("shape", [SMALL, (40, 2048)], ids=str)
def test_gradient_of_a_fixed_mask(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(7)
    y = dropout(x, 0.25, True)
    weights = torch.randn_like(x)
    (gradient,) = torch.autograd.grad((y * weights).sum(), x)
    torch.testing.assert_close(gradient, torch.where(y == 0, 0.0, weights / 0.75))
    torch.testing.assert_close(y, torch.where(y == 0, 0.0, x / 0.75))


def test_gradcheck() -> None:
    def fixed(x: Tensor) -> Tensor:
        torch.manual_seed(8)
        return dropout(x.T, 0.3, True)  # not contiguous either

    x = torch.randn(5, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(fixed, (x,))


def test_second_derivatives_are_refused_not_wrong() -> None:
    x = torch.ones(3, requires_grad=True)
    y = dropout(x, 0.5, True)
    (first,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_nothing_to_do() -> None:
    x = torch.ones(3)
    assert dropout(x, 0.0, True) is x
    assert dropout(x, 0.5, False) is x
    assert dropout(x, 1.0, True).tolist() == [0.0, 0.0, 0.0]
    assert dropout(torch.ones(0, 4), 0.5, True).shape == (0, 4)
    with pytest.raises(ValueError, match="probability"):
        dropout(x, 1.5, True)


def test_other_devices_use_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(3, device="meta")
    monkeypatch.setattr(module.F, "dropout", lambda x, rate, training: ("its own", rate, training))
    assert dropout(x, 0.1, True) == ("its own", 0.1, True)


def test_under_autocast() -> None:
    x = torch.randn(32, 64).bfloat16().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        y = dropout(x, 0.5, True)
        y.float().sum().backward()
    assert y.dtype == torch.bfloat16
    assert x.grad is not None
    assert torch.equal(x.grad, torch.where(y == 0, 0.0, 2.0).bfloat16())
