"""Layout and Batch: hand-computed places, and pad/pack as inverses."""

from __future__ import annotations

import pytest
import torch

from tianci.batch import Batch, Group, Layout


def test_where_tokens_sit() -> None:
    layout = Layout([2, 2, 1, 3])
    assert (len(layout), layout.tokens, layout.longest, layout.even) == (4, 8, 3, False)
    assert layout.starts.tolist() == [0, 2, 4, 5, 8]
    assert layout.sequence.tolist() == [0, 0, 1, 1, 2, 3, 3, 3]
    assert layout.position.tolist() == [0, 1, 0, 1, 0, 0, 1, 2]
    assert layout.first().tolist() == [0, 2, 4, 5]
    assert layout.last().tolist() == [1, 3, 4, 7]
    assert layout.groups == (Group(0, 2, 2), Group(4, 1, 1), Group(5, 1, 3))


def test_pad_and_pack() -> None:
    layout = Layout([1, 3])
    padded = layout.pad(torch.tensor([5.0, 1.0, 2.0, 3.0]), fill=-1)
    assert padded.tolist() == [[5, -1, -1], [1, 2, 3]]
    assert layout.mask.tolist() == [[True, False, False], [True, True, True]]
    assert layout.pack(padded).tolist() == [5, 1, 2, 3]
    even = Layout([2, 2])
    assert even.even and even.pad(torch.arange(4)).tolist() == [[0, 1], [2, 3]]


def test_shift_stays_inside_sequences() -> None:
    layout = Layout([2, 3])
    x = torch.tensor([1, 2, 3, 4, 5])
    assert layout.shift(x, 1).tolist() == [0, 1, 0, 3, 4]
    assert layout.shift(x, -1).tolist() == [2, 0, 4, 5, 0]
    assert layout.shift(x[:, None], 2).tolist() == [[0], [0], [0], [0], [3]]


def test_empty_layout() -> None:
    layout = Layout([])
    assert (len(layout), layout.tokens, layout.longest) == (0, 0, 0)
    assert layout.groups == () and layout.position.tolist() == []
    assert layout.shift(torch.zeros(0), 1).tolist() == []


def test_an_empty_sequence_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        Layout([3, 0])


def test_batch_of_lists() -> None:
    batch = Batch.of([[7, 8], [9]], [[0, 1], [0]])
    assert batch.tokens.tolist() == [7, 8, 9]
    assert batch.segments is not None and batch.segments.tolist() == [0, 1, 0]
    assert batch.to("cpu").layout is batch.layout
