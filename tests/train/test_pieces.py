"""How a batch is cut into pieces that fit into memory."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tianci.train.loop import Loop
from tianci.train.parallel import World
from tianci.train.settings import Train
from tianci.train.state import State


def pieces(lengths: list[int], most: int) -> list[list[int]]:
    """The lengths in each piece."""
    loop = SimpleNamespace(world=World(), state=State(), settings=Train(micro_tokens=most))
    pool = SimpleNamespace(lengths=np.array(lengths))
    cut = Loop._pieces(loop, pool, np.arange(len(lengths)))  # type: ignore[arg-type]
    return [[lengths[i] for i in piece] for piece in cut]


def test_seven_sequences_longest_first() -> None:
    """Six pieces would do by their number of tokens, but then the two longest share one: halving
    96 tokens again and again would never end."""
    assert pieces([48, 48, 40, 36, 30, 26, 22], 48) == [[48], [48], [40], [36], [30], [26], [22]]


def test_few_pieces_where_they_fit() -> None:
    assert pieces([10, 10, 10, 10], 20) == [[10, 10], [10, 10]]
    assert pieces([10, 10, 10], 100) == [[10, 10, 10]]


@pytest.mark.parametrize("seed", range(20))
def test_no_piece_is_larger_than_allowed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = sorted(rng.integers(1, 60, rng.integers(1, 40)).tolist(), reverse=True)
    most = int(rng.integers(1, 300))
    cut = pieces(lengths, most)
    assert [n for piece in cut for n in piece] == lengths
    assert all(sum(piece) <= most or len(piece) == 1 for piece in cut)
