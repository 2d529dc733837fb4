"""Blanks between pieces: what decoding gives, and what people write."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tianci.text.readable import readable, without_blanks


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


def test_what_is_written_stays_when_more_follows() -> None:
    """A stream prints what is new; what it has printed must not change."""
    pieces = ["他", "说", "hello,", "it", "'", "s", "3.", "5", "%", "（", "对", "）", "。", "ok"]
    texts = [without_blanks(" ".join(pieces[:n])) for n in range(1, len(pieces) + 1)]
    assert all(late.startswith(soon) for soon, late in pairwise(texts))
    assert texts[-1] == "他说hello, it ' s 3. 5 %（对）。ok"
