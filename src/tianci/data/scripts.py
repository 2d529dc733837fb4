"""Which script most letters of a line are from, for many lines at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

# Ranges within the basic plane; everything that is not a letter of these is no script at all.
_RANGES = {
    "Latin": ((0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x24F), (0x1E00, 0x1EFF), (0xFF21, 0xFF5A)),
    "Chinese": ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF)),
    "Greek": ((0x370, 0x3FF), (0x1F00, 0x1FFF)),
    "Cyrillic": ((0x400, 0x52F),),
    "Armenian": ((0x530, 0x58F),),
    "Hebrew": ((0x590, 0x5FF),),
    "Arabic": ((0x600, 0x6FF), (0x750, 0x77F), (0xFB50, 0xFDFF), (0xFE70, 0xFEFC)),
    "Indic": ((0x900, 0xDFF),),
    "Thai": ((0xE00, 0xE7F),),
    "Georgian": ((0x10A0, 0x10FF),),
    "Hangul": ((0x1100, 0x11FF), (0x3130, 0x318F), (0xAC00, 0xD7AF)),
    "Kana": ((0x3041, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9F)),
    "Tibetan": ((0xF00, 0xFFF),),
    "Mongolian": ((0x1800, 0x18AF),),
}
NAMES = ("none", *_RANGES)
USUAL = ("none", "Latin", "Chinese")  # what this project is for
_BITS = 21  # of a counter, three of which fit into 8 bytes; a document has a million characters
_MOST = (1 << _BITS) - 1


@cache
def _table() -> npt.NDArray[np.uint8]:
    table = np.zeros(1 << 16, np.uint8)
    for number, ranges in enumerate(_RANGES.values(), 1):
        for first, last in ranges:
            table[first : last + 1] = number
    table[0x30FB:0x30FD] = 0  # the middle dot and the long mark also stand in Chinese text
    return table


@cache
def _counters() -> npt.NDArray[np.int64]:
    """What a character adds to all letters, Latin and Chinese ones: three numbers in one."""
    table = _table()
    counters: npt.NDArray[np.int64] = (table != 0).astype(np.int64)
    for place, name in enumerate(USUAL[1:], 1):
        counters += (table == NAMES.index(name)).astype(np.int64) << place * _BITS
    return counters


def scripts_of(lines: Sequence[str]) -> npt.NDArray[np.uint8]:
    """The number (in NAMES) of the script of each line; lines in plain ASCII count as Latin."""
    found = np.full(len(lines), NAMES.index("Latin"), np.uint8)
    other = [at for at, line in enumerate(lines) if not line.isascii()]
    if not other:
        return found
    # Each line ends in a newline, whose place tells where the next one begins.
    text = "".join([lines[at] + "\n" for at in other])
    codes = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), np.uint16)
    ends = np.flatnonzero(codes == 10)
    starts = np.concatenate([[0], ends[:-1] + 1])
    sums = np.add.reduceat(_counters()[codes], starts)
    letters = sums & _MOST
    best = np.zeros(len(other), np.uint8)
    for place, name in enumerate(USUAL[1:], 1):  # what has more than half needs no further look
        best[2 * (sums >> place * _BITS & _MOST) > letters] = NAMES.index(name)
    for at in np.flatnonzero((best == 0) & (letters > 0)).tolist():
        kinds = _table()[codes[starts[at] : ends[at]]]
        counts = np.bincount(kinds, minlength=len(NAMES))
        best[at] = counts[1:].argmax() + 1  # digits and punctuation belong to every script
    found[other] = best
    return found
