"""Reads TensorFlow V2 checkpoints: prefix.index and its prefix.data-00000-of-0000N shards.

The index is a LevelDB table from tensor names to BundleEntryProto (dtype, shape, place, checksum);
the empty name holds the BundleHeaderProto. The shards hold the values and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianci.errors import UserError

Array = NDArray[Any]
Words = NDArray[np.uint32]

MAGIC = 0xDB4775248B80FB57
FOOTER = 48  # two block handles, padding, magic
TRAILER = 5  # compression byte, masked crc32c
BFLOAT16 = 14  # unknown to numpy: the upper half of a float32
DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", BFLOAT16: "<u2", 19: "<f2"}
OTHER_DTYPES = {4: "uint8", 5: "int16", 6: "int8", 7: "string", 8: "complex64", 10: "bool"}
AGAIN = "it is damaged or incomplete, copy or download it again"


@dataclass(frozen=True)
class Entry:
    """Where one tensor lies, and what it is."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    crc: int
    partitioned: bool


class Bundle(Mapping[str, Array]):
    """Tensors by name; values are read from disk, and their checksums verified, on access."""

    def __init__(self, prefix: Path, entries: dict[str, Entry], shards: int):
        self.entries = entries
        self.files = {
            entry.shard: Path(f"{prefix}.data-{entry.shard:05d}-of-{shards:05d}")
            for entry in entries.values()
        }
        for number, file in self.files.items():
            if not file.is_file():
                raise UserError(f"{file}: no such file; put it beside {prefix.name}.index")
            held = file.stat().st_size
            ends = [e.offset + e.size for e in entries.values() if e.shard == number]
            if max(ends) > held:
                raise UserError(f"{file}: {held} bytes, but its tensors need {max(ends)}; {AGAIN}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, name: str) -> Array:
        entry = self.entries[name]
        file = self.files[entry.shard]
        if entry.partitioned:
            raise UserError(
                f'{file}: tensor "{name}" is partitioned, which is not supported; '
                "save the checkpoint again without a partitioner"
            )
        if entry.dtype not in DTYPES:
            kind = OTHER_DTYPES.get(entry.dtype, f"number {entry.dtype}")
            raise UserError(
                f'{file}: tensor "{name}" has dtype {kind}, which is not supported; '
                "save it as float32, float64, float16, bfloat16, int32 or int64"
            )
        data = np.fromfile(file, np.uint8, entry.size, offset=entry.offset)
        if mask(crc32c(data)) != entry.crc:
            raise UserError(f'{file}: the checksum of tensor "{name}" is wrong; {AGAIN}')
        try:
            values: Array = data.view(DTYPES[entry.dtype]).reshape(entry.shape)
        except (ValueError, OverflowError) as error:
            raise UserError(
                f'{file}: tensor "{name}" takes {entry.size} bytes, '
                f"which do not fit its shape {entry.shape}; {AGAIN}"
            ) from error
        if entry.dtype == BFLOAT16:
            values = (values.astype(np.uint32) << 16).view(np.float32)
        return values


def read_bundle(prefix: Path) -> Bundle:
    """The tensors of a checkpoint such as folder/bert_model.ckpt; bfloat16 comes as float32."""
    file = Path(f"{prefix}.index")
    if not file.is_file():
        raise UserError(
            f"{file}: no such file; give the folder or prefix of a TensorFlow checkpoint"
        )
    try:
        shards, entries = _entries(dict(_table(file.read_bytes())))
    except UserError as error:
        raise UserError(f"{file}: {error}") from error
    except ValueError as error:
        raise UserError(f"{file}: {error}; {AGAIN}") from error
    return Bundle(prefix, entries, shards)


# The table. Whatever is malformed is a ValueError; every read is bounded by the bytes there are.


def _table(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a LevelDB table."""
    if len(data) < FOOTER or int.from_bytes(data[-8:], "little") != MAGIC:
        raise ValueError("not the index of a TensorFlow V2 checkpoint (wrong magic number)")
    at = len(data) - FOOTER
    for _ in range(2):  # the meta block, which is empty, then the index block
        offset, at = _varint(data, at)
        size, at = _varint(data, at)
        handles = list(_block(data, offset, size))
    for _, handle in handles:
        offset, after = _varint(handle, 0)
        size, _ = _varint(handle, after)
        yield from _block(data, offset, size)


def _block(data: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of one block; a key says how much of the previous key it repeats."""
    block, _ = _take(data, offset, size + TRAILER)
    checksum = int.from_bytes(block[-4:], "little")
    if mask(crc32c(np.frombuffer(block[:-4], np.uint8))) != checksum:
        raise ValueError(f"the checksum of the block at byte {offset} is wrong")
    if block[size] != 0:  # TensorFlow writes indexes uncompressed; snappy would be a dependency
        raise UserError("compressed blocks are not supported; save the checkpoint uncompressed")
    restarts = int.from_bytes(block[size - 4 : size], "little")
    end = size - 4 - 4 * restarts
    if end < 0:
        raise ValueError(f"the block at byte {offset} is malformed")
    at, key = 0, b""
    while at < end:
        shared, at = _varint(block, at)
        fresh, at = _varint(block, at)
        length, at = _varint(block, at)
        rest, at = _take(block, at, fresh)
        value, at = _take(block, at, length)
        key = key[:shared] + rest
        yield key, value


def _entries(table: dict[bytes, bytes]) -> tuple[int, dict[str, Entry]]:
    """The number of shards and the place of every tensor."""
    if b"" not in table:
        raise ValueError("the header is missing")
    header, _ = _message(table[b""])
    if header.get(2, 0) != 0:
        raise UserError(
            "big-endian tensors are not supported; save them on a little-endian machine"
        )
    # keys that begin with a zero byte are the pieces of partitioned tensors, not names
    found = {key.decode(): _entry(value) for key, value in table.items() if key[:1] > b"\0"}
    return header.get(1, 0), found


def _entry(data: bytes) -> Entry:
    """A BundleEntryProto; in its field 2, the shape, fields 2 are dims, in those 1 the size."""
    numbers, parts = _message(data)
    dims = [dim for n, shape in parts if n == 2 for m, dim in _message(shape)[1] if m == 2]
    return Entry(
        dtype=numbers.get(1, 0),
        shape=tuple(_message(dim)[0].get(1, 0) for dim in dims),
        shard=numbers.get(3, 0),
        offset=numbers.get(4, 0),
        size=numbers.get(5, 0),
        crc=numbers.get(6, 0),
        partitioned=any(n == 7 for n, _ in parts),
    )


def _message(data: bytes) -> tuple[dict[int, int], list[tuple[int, bytes]]]:
    """The fields of a protobuf message: its numbers, and its strings and messages in order."""
    numbers: dict[int, int] = {}
    parts: list[tuple[int, bytes]] = []
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        field, wire = tag >> 3, tag & 7
        if wire == 0:
            numbers[field], at = _varint(data, at)
        elif wire == 2:
            size, at = _varint(data, at)
            part, at = _take(data, at, size)
            parts.append((field, part))
        elif wire in (1, 5):
            fixed, at = _take(data, at, 8 if wire == 1 else 4)
            numbers[field] = int.from_bytes(fixed, "little")
        else:
            raise ValueError(f"a field has the unknown wire type {wire}")
    return numbers, parts


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in base 128, least digits first, and where it ends."""
    value = 0
    for digit, byte in enumerate(data[at : at + 10]):  # ten digits make 64 bits
        value |= (byte & 127) << 7 * digit
        if byte < 128:
            return value, at + digit + 1
    raise ValueError(f"a number is cut short or too long at byte {at}")


def _take(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    """`size` bytes from `at`, and where they end."""
    if at + size > len(data):
        raise ValueError(f"{size} bytes are needed at byte {at}, but only {len(data)} are there")
    return data[at : at + size], at + size


# The checksum. A crc is linear, so data can be folded: its first half, moved on by the length of
# the second, xor the second. On whole arrays that is one table lookup per 16 bits: 400 MB take a
# second, where a loop over the bytes takes 40. Zeros in front change nothing.

CHUNK = 1 << 16  # words; small enough to stay in the cache
BEFORE = 0x641F6454  # the word that brings the crc to its initial state, all ones


def crc32c(data: NDArray[np.uint8]) -> int:
    """The Castagnoli checksum of some bytes."""
    padded = np.zeros(-(-(len(data) + 4) // (4 * CHUNK)) * 4 * CHUNK, np.uint8)
    start = len(padded) - len(data)
    padded[start - 4 : start] = np.frombuffer(BEFORE.to_bytes(4, "little"), np.uint8)
    padded[start:] = data
    crc = np.zeros(1, np.uint32)
    for words in padded.view("<u4").reshape(-1, CHUNK):
        while (half := len(words) // 2) > 0:
            words = _move(words[:half], half) ^ words[half:]
        crc = _move(crc, CHUNK) ^ words
    return int(_move(crc, 1)[0]) ^ 0xFFFFFFFF


def mask(crc: int) -> int:
    """The crc as LevelDB stores it: rotated and moved, as crcs of crcs are weak."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _move(words: Words, distance: int) -> Words:
    """The words moved on by `distance` words, a power of two, modulo the polynomial."""
    low, high = _tables(distance)
    halves = words.view("<u2")
    moved: Words = low[halves[..., ::2]] ^ high[halves[..., 1::2]]
    return moved


@cache
def _tables(distance: int) -> Words:
    """What moving makes of the lower and of the upper 16 bits of a word, [2, 65536]."""
    if distance > 1:
        return _move(_tables(distance // 2), distance // 2)
    half, one = np.arange(1 << 16, dtype=np.uint32), np.uint32(1)
    words: Words = np.stack([half, half << 16])
    for _ in range(32):
        words = words >> one ^ (words & one) * np.uint32(0x82F63B78)
    return words
