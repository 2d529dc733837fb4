"""Damage of files, as disks, copies and people do it; each is undone at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

Damage = Callable[[bytes, np.random.Generator], bytes | None]  # None: the file is gone


def _at(data: bytes, rng: np.random.Generator) -> int:
    return int(rng.integers(len(data)))


def flip(data: bytes, rng: np.random.Generator) -> bytes:
    """One bit is another."""
    at = _at(data, rng)
    return data[:at] + bytes([data[at] ^ 1 << int(rng.integers(8))]) + data[at + 1 :]


def truncate(data: bytes, rng: np.random.Generator) -> bytes:
    return data[: _at(data, rng)]


def cut_last(data: bytes, rng: np.random.Generator) -> bytes:
    """Only the last byte is gone: in a text file often a line's end."""
    return data[:-1]


def empty(data: bytes, rng: np.random.Generator) -> bytes:
    return b""


def zeros(data: bytes, rng: np.random.Generator) -> bytes:
    """A block that never reached the disk."""
    at = _at(data, rng)
    end = min(len(data), at + 512)
    damaged = data[:at] + bytes(end - at) + data[end:]
    return damaged if damaged != data else flip(data, rng)


def longer(data: bytes, rng: np.random.Generator) -> bytes:
    return data + b"\n"


def swap(data: bytes, rng: np.random.Generator) -> bytes:
    """Two bytes have changed places."""
    a, b = sorted((_at(data, rng), _at(data, rng)))
    if data[a] == data[b]:
        return flip(data, rng)
    return data[:a] + data[b : b + 1] + data[a + 1 : b] + data[a : a + 1] + data[b + 1 :]


def gone(data: bytes, rng: np.random.Generator) -> None:
    return None


KINDS: tuple[Damage, ...] = (flip, truncate, cut_last, empty, zeros, longer, swap, gone)


@contextmanager
def damaged(path: Path, kind: Damage, rng: np.random.Generator) -> Iterator[None]:
    """The file is damaged inside the block, and as before behind it."""
    data = path.read_bytes()
    changed = kind(data, rng)
    if changed is None:
        path.unlink()
    else:
        path.write_bytes(changed)
    try:
        yield
    finally:
        path.write_bytes(data)
