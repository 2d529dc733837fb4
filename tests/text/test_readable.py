"""Blanks between pieces: what decoding gives, and what people write."""

from __future__ import annotations

import pytest

from tianci.text.readable import readable


@pytest.mark.parametrize(
    ("decoded", "written"),
    [
        ("双 官 能 团 的 性 能", "双官能团的性能"),
        ("用 gps 与 bert 模 型 （ 2019 ） 。", "用gps与bert模型（2019）。"),
        ("isn ' t it? it ' s 3. 5 % ( or so ).", "isn't it? it's 3.5% (or so)."),
        ("navier - stokes, 3, 000 dollars", "navier-stokes, 3,000 dollars"),
        ("a man sleeps. he snores", "a man sleeps. he snores"),
        ("", ""),
    ],
)
def test_readable(decoded: str, written: str) -> None:
    assert readable(decoded) == written
