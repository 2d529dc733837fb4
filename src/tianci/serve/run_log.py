"""The log of a run behind a cursor: what was appended since, and whether the log was cut back.

A cursor is a byte offset and a checksum of the bytes before it. A run that is resumed replaces its
log by one that ends at its checkpoint; the checksum tells that what a reader has seen before the
offset is no longer what stands there.
"""

from __future__ import annotations

import json
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

WINDOW = 4096  # bytes before the offset that the checksum covers: a dozen lines with clock readings
CHUNK = 1 << 20  # bytes that one call reads; a line beyond that is not ours and is left out
_CURSOR = re.compile(r"([0-9]{1,15})-([0-9a-f]{8})")


class Cursor(NamedTuple):
    """A place in a log."""

    offset: int = 0
    mark: int = 0

    def __str__(self) -> str:
        return f"{self.offset}-{self.mark:08x}"


START = Cursor()


def parse_cursor(text: str) -> Cursor | None:
    """The cursor that a client gave back, or None where it is none of ours."""
    found = _CURSOR.fullmatch(text)
    return Cursor(int(found[1]), int(found[2], 16)) if found else None


@dataclass(frozen=True)
class Part:
    """Some lines of a log."""

    reset: bool  # the log is not the one the cursor came from: these are its first lines
    lines: list[tuple[bytes, Cursor]]  # each with the cursor behind it
    cursor: Cursor  # behind the last one
    more: bool  # whether there is more to read at once


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A regular file for reading; OSError for links, pipes and whatever else has that name."""
    # without O_NONBLOCK the open itself would wait for the writer of a pipe
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(f"{path} is no regular file")
        yield handle
    finally:
        os.close(handle)


def read_after(path: Path, cursor: Cursor = START, most: int = CHUNK) -> Part:
    """The whole lines behind a cursor; a line that is still being written waits."""
    with opened(path) as handle:
        begin = max(0, cursor.offset - WINDOW)
        data = os.pread(handle, cursor.offset - begin + most, begin)
        size = os.fstat(handle).st_size
        seen = cursor.offset - begin
        reset = len(data) < seen or zlib.crc32(data[:seen]) != cursor.mark
        if reset:
            begin, seen = 0, 0
            data = os.pread(handle, most, 0)
    lines: list[tuple[bytes, Cursor]] = []
    view, at = memoryview(data), seen
    while (end := data.find(b"\n", at)) >= 0:
        at, line = end + 1, data[at:end]
        if line.strip():
            lines.append((line, _cursor(view, begin, at)))
    if at == seen and len(data) - seen >= most:
        at = len(data)  # a line without an end: its rest will not be JSON either
    return Part(reset, lines, _cursor(view, begin, at), at > seen and begin + len(data) < size)


def _cursor(view: memoryview, begin: int, at: int) -> Cursor:
    return Cursor(begin + at, zlib.crc32(view[max(0, at - WINDOW) : at]))


def clean(line: bytes) -> bytes | None:
    """An entry as JSON that every client can read, or None for a line that is no entry."""
    try:
        value = json.loads(line)  # Python's own: it wrote the NaN, which msgspec writes as null
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    try:
        return msgspec.json.encode(value)
    except (ValueError, OverflowError, RecursionError):
        return msgspec.json.encode(plain(value))


def plain(value: Any, depth: int = 100) -> Any:
    """The same without what JSON or its readers do not take: half a surrogate pair, NaN, integers
    of any length, nesting without end."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < 1 << 63:
        return value
    if isinstance(value, int | float):
        return float(value) if abs(value) < 1e300 else None  # NaN is not below anything
    if depth and isinstance(value, dict):
        return {plain(str(key)): plain(one, depth - 1) for key, one in value.items()}
    if depth and isinstance(value, list | tuple):
        return [plain(one, depth - 1) for one in value]
    return None
