"""Whole numbers of eight bits: by hand, and never more than 16 bits hold when two are added."""

from __future__ import annotations

import torch

from tianci.nn import eight_bits


def test_rows_by_hand() -> None:
    numbers, scale = eight_bits.rows(torch.tensor([[1.27, -0.5, 0.004], [0.0, 0.0, 0.0]]))
    assert numbers.tolist() == [[127, -50, 0], [0, 0, 0]]
    torch.testing.assert_close(scale, torch.tensor([0.01, 1.0]))


def test_neighbours_of_one_sign_stay_within_128() -> None:
    cases = [  # a row, its whole numbers, its scale
        ([1.0, 1.0, 0.0, 0.0], [64, 64, 0, 0], 2 / 127.5),  # together 128 at most
        ([1.0, -1.0, 0.0, 0.0], [127, -127, 0, 0], 1 / 127),  # they lift each other
        ([0.0, 1.0, 1.0, 0.0], [0, 127, 127, 0], 1 / 127),  # added in other pairs
        ([-1.27, -0.005, 0.0, 0.0], [-127, 0, 0, 0], 0.01),  # the half of rounding still fits
    ]
    numbers, scale = eight_bits.for_products(torch.tensor([row for row, _, _ in cases]))
    assert numbers.tolist() == [whole for _, whole, _ in cases]
    torch.testing.assert_close(scale, torch.tensor([one for _, _, one in cases]))


def test_products_are_exact_where_two_are_added_in_16_bits() -> None:
    """On a processor without VNNI a plain scale for each row fails this."""
    dice = torch.Generator().manual_seed(0)
    for width in (384, 1536, 51):
        matrix = torch.randn(64, width, generator=dice) ** 3  # a few are far above the others
        numbers, _ = eight_bits.for_products(matrix)
        wide = torch.nn.functional.pad(numbers.int(), (0, width % 2)).unflatten(1, (-1, 2))
        for sign in (1, -1):
            assert (sign * wide).clamp(min=0).sum(2).max() <= 128
        x = torch.full((16, width), 255, dtype=torch.uint8)
        y = torch.ops.onednn.qlinear_pointwise(
            x, 1.0, 0, torch.ops.onednn.qlinear_prepack(numbers, None), torch.ones(64),
            torch.zeros(64, dtype=torch.int32), None, 1.0, 0, torch.float32, "none", [], "none",
        )  # fmt: skip
        assert torch.equal(y, (x.double() @ numbers.double().T).float())
