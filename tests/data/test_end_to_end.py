"""Arithmetic of things that lie end to end, by hand."""

from __future__ import annotations

import numpy as np

from tianci.data import end_to_end


def test_begins_and_ranges() -> None:
    assert end_to_end.begins(np.array([3, 1, 2])).tolist() == [0, 3, 4]
    assert end_to_end.ranges(np.array([7, 2]), np.array([2, 3])).tolist() == [7, 8, 2, 3, 4]


def test_pieces_are_whole_numbers_of_any_size() -> None:
    for kind in (np.int8, np.uint16, np.int64):
        values = np.arange(10, 20, dtype=kind)
        found = end_to_end.pieces(values, np.array([8, 0, 5]), np.array([10, 2, 5]))
        assert found.tolist() == [18, 19, 10, 11] and found.dtype == kind
        assert end_to_end.pieces(values, np.array([], int), np.array([], int)).tolist() == []
