"""A table of short runs of characters and their ids that is asked for many runs at once.

A run of up to 16 bytes is two whole numbers of 8 bytes, so it can be looked up by numpy instead of
a dict: no string is made. Keys are compared whole; a wrong answer is impossible. A place that is
taken stays taken, for what comes first in natural text is what comes often; when half of the
places are taken, the table is emptied and begins anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.uint64]

LONGEST = 16  # bytes of a run
MOST_IDS = 1 << 22  # in the pool, those of runs that found no free place among them
PADDING = bytes(LONGEST)  # behind a text, so that the last run can be read whole
_FACTORS = tuple(np.uint64(f) for f in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93))
# which bits of the first and of the second 8 bytes belong to a run of so many bytes
_MASKS = tuple(
    np.array([(1 << 8 * min(max(size - skip, 0), 8)) - 1 for size in range(LONGEST + 1)], np.uint64)
    for skip in (0, 8)
)


class RunTable:
    """Runs to ids; `pool` holds the ids of all runs in a row."""

    def __init__(self, dtype: np.dtype[Any], bits: int = 19):
        self._shift = np.uint64(64 - bits)
        self._most = 1 << (bits - 1)
        self._first, self._second = (np.zeros(1 << bits, np.uint64) for _ in range(2))
        self._values = np.zeros(1 << bits, np.int64)  # place in the pool << 32 | number of ids
        self._taken = 0
        self.pool = np.zeros(1 << 12, dtype)
        self._end = 1  # so that no value is 0

    def find(
        self, units: npt.NDArray[Any], starts: Places, lengths: Places
    ) -> tuple[Numbers, Numbers, Places]:
        """Both halves of each run, and its value, 0 where it is not known.

        `starts` and `lengths` count units; behind the units there must be `PADDING`.
        """
        step = units.itemsize
        count = (units.nbytes - 8) // step + 1
        # 8 bytes from each unit on; copied, because numpy is slow with numbers at odd addresses
        windows = np.ascontiguousarray(np.ndarray((count,), "<u8", units.data, strides=(step,)))
        sizes = np.minimum(lengths * step, LONGEST)
        first = windows.take(starts) & _MASKS[0].take(sizes)
        second = windows.take(starts + 8 // step) & _MASKS[1].take(sizes)
        slots = self._slots(first, second)
        hit = (self._first.take(slots) == first) & (self._second.take(slots) == second)
        hit &= lengths * step <= LONGEST
        return first, second, self._values.take(slots) * hit

    def make_room(self) -> None:
        """Forgets everything when too much is remembered; values found before no longer hold."""
        if self._taken > self._most or self._end > MOST_IDS:
            self._first[:] = 0
            self._second[:] = 0
            self._taken, self._end = 0, 1

    def store(self, ids: npt.NDArray[Any], counts: Places) -> Places:
        """Puts the ids of runs into the pool and gives back the values of the runs."""
        while self._end + len(ids) > len(self.pool):
            self.pool = np.concatenate([self.pool, np.zeros_like(self.pool)])
        self.pool[self._end : self._end + len(ids)] = ids
        places = self._end + np.cumsum(counts) - counts
        self._end += len(ids)
        return places << 32 | counts

    def add(self, first: Numbers, second: Numbers, values: Places) -> None:
        """Remembers runs that are not known yet, as far as their places are free."""
        slots, which = np.unique(self._slots(first, second), return_index=True)
        free = self._first[slots] == 0
        slots, which = slots[free], which[free]
        self._first[slots], self._second[slots] = first[which], second[which]
        self._values[slots] = values[which]
        self._taken += len(slots)

    def _slots(self, first: Numbers, second: Numbers) -> Places:
        mixed = first * _FACTORS[0] + second * _FACTORS[1]
        mixed ^= mixed >> np.uint64(32)
        mixed *= _FACTORS[2]
        return (mixed >> self._shift).view(np.int64)


def characters(first: Numbers, second: Numbers, unit: np.dtype[Any]) -> npt.NDArray[Any]:
    """The units of runs of up to 16 bytes, a run per row, with zeros behind its end."""
    return np.stack([first, second], 1).astype("<u8").view(unit)
