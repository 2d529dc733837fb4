"""What comes again in a stream too large to remember: all copies of documents, frequent lines."""

from __future__ import annotations

import sys
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from tianci.room import explained

Hashes = npt.NDArray[np.uint64]

BLOCK = 1 << 18  # hashes read or written at once
PASS = 1 << 21  # hashes sorted at once
MOST_LINES = 1 << 19  # different lines counted at once


class DocumentHashes:
    """One 8-byte hash per document in a temporary file: 8 MB of disk per million documents."""

    def __init__(self) -> None:
        self.count = 0
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by our own __exit__
        self._waiting = array("Q")

    def __enter__(self) -> DocumentHashes:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, value: int) -> None:
        self._waiting.append(value)
        self.count += 1
        if len(self._waiting) >= BLOCK:
            self._flush()

    def later_copies(self) -> npt.NDArray[np.uint8]:
        """One bit per document (as np.packbits): 1 where the same hash came before."""
        flags = np.zeros((self.count + 7) // 8, np.uint8)
        passes = max(1, -(-self.count // PASS))
        for number in range(passes):
            values, places = self._pick(number, passes)
            order = np.argsort(values, kind="stable")  # stable: the first of equals stays first
            values, places = values[order], places[order]
            again = places[1:][values[1:] == values[:-1]]
            np.bitwise_or.at(flags, again >> 3, (128 >> (again & 7)).astype(np.uint8))
        return flags

    def at(self, places: list[int]) -> list[int]:
        """The hashes of a few documents."""
        self._flush()
        found = []
        for place in places:
            self._file.seek(place * 8)
            found.append(int.from_bytes(self._file.read(8), sys.byteorder))
        return found

    def smallest(self, count: int) -> Hashes:
        """The smallest different hashes, in order."""
        found = np.empty(0, np.uint64)
        for block in self._blocks():
            found = np.unique(np.concatenate([found, block]))[:count]
        return found

    def _pick(self, number: int, passes: int) -> tuple[Hashes, npt.NDArray[np.int64]]:
        """The hashes of one pass (all equal ones are in the same pass), and their places."""
        values, places, start = [], [], 0
        for block in self._blocks():
            # the low bits, because the smallest hashes are what the held-out documents have
            mine = np.flatnonzero(block % np.uint64(passes) == number)
            values.append(block[mine])
            places.append(mine + start)
            start += len(block)
        return (
            np.concatenate([*values, np.empty(0, np.uint64)]),
            np.concatenate([*places, np.empty(0, np.int64)]),
        )

    def _blocks(self) -> Iterator[Hashes]:
        self._flush()
        self._file.seek(0)
        while data := self._file.read(BLOCK * 8):
            yield np.frombuffer(data, np.uint64)

    def _flush(self) -> None:
        self._file.seek(0, 2)
        content = self._waiting.tobytes()
        with explained(Path(tempfile.gettempdir()), len(content)):
            self._file.write(content)
            self._file.flush()
        self._waiting = array("Q")


class FrequentLines:
    """Counts lines by their hash in bounded memory (Misra and Gries 1982).

    Counts are exact up to half a million different lines. Beyond, a count may be too low by `error`
    (at most the number of lines divided by half a million) and is never too high.
    """

    def __init__(self) -> None:
        self.error = 0
        self._waiting = array("q")
        self._hashes = np.empty(0, np.int64)
        self._counts = np.empty(0, np.int64)

    def add(self, lines: Iterable[str]) -> None:
        self._waiting.extend(map(hash, lines))
        if len(self._waiting) > MOST_LINES // 2:
            self._merge()

    def at_least(self, count: int) -> dict[int, int]:
        """Hash to count of the lines that came at least so often."""
        self._merge()
        often = self._counts >= count
        return dict(zip(self._hashes[often].tolist(), self._counts[often].tolist(), strict=True))

    def _merge(self) -> None:
        both = np.concatenate([self._hashes, np.frombuffer(self._waiting, np.int64)])
        weights = np.concatenate([self._counts, np.ones(len(self._waiting), np.int64)])
        self._waiting = array("q")
        self._hashes, where = np.unique(both, return_inverse=True)
        self._counts = np.bincount(where, weights, len(self._hashes)).astype(np.int64)
        if len(self._hashes) > MOST_LINES:
            less = int(np.partition(self._counts, -MOST_LINES - 1)[-MOST_LINES - 1])
            self.error += less
            keep = self._counts > less
            self._hashes, self._counts = self._hashes[keep], self._counts[keep] - less


def first_flags(flags: npt.NDArray[np.uint8], count: int) -> list[int]:
    """The places of the first few bits that are set."""
    found: list[int] = []
    for at in np.flatnonzero(flags)[:count].tolist():
        found += [
            at * 8 + bit for bit in np.flatnonzero(np.unpackbits(flags[at : at + 1])).tolist()
        ]
    return found[:count]


def flagged(flags: npt.NDArray[np.uint8], number: int) -> bool:
    """One bit of `later_copies`."""
    return bool(flags[number >> 3] & (128 >> (number & 7)))
