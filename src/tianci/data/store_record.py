"""corpus.json, checked before anything is mapped: a store may come from somebody else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tianci.errors import UserError
from tianci.settings import convert

TYPES = {"<u2": 2, "<u4": 4}  # of token ids, with their bytes; any other would be no number
_OUTSIDE = frozenset("/\\\0")  # characters that lead out of a directory


class _File(msgspec.Struct):
    bytes: int
    sha256: str


class _Shard(msgspec.Struct):
    name: str
    documents: int
    sentences: int
    tokens: int
    files: dict[str, _File]


class _Record(msgspec.Struct):
    vocabulary: int
    dtype: str
    splits: dict[str, list[_Shard]]


def check_record(path: Path, values: dict[str, Any]) -> None:
    """Refuses what cannot be a token store: other types, files elsewhere, sizes that do not fit."""
    record = convert(path, values, _Record)
    if record.dtype not in TYPES:
        raise UserError(f"{path}: dtype is {record.dtype!r:.40}; tokens are {' or '.join(TYPES)}")
    for shards in record.splits.values():
        for shard in shards:
            for name in (shard.name, *shard.files):
                if not name or name in (".", "..") or _OUTSIDE & set(name):
                    raise UserError(f"{path}: {name!r:.60} is no name of a file beside it")
            _check_sizes(path, shard, TYPES[record.dtype])


def _check_sizes(path: Path, shard: _Shard, size: int) -> None:
    wanted = {
        "tokens.bin": shard.tokens * size,
        "sentences.bin": (shard.sentences + 1) * 4,
        "documents.bin": (shard.documents + 1) * 4,
    }
    if "words.bin" in shard.files:
        wanted["words.bin"] = (shard.tokens + 7) // 8
    if min(shard.documents, shard.sentences, shard.tokens) < 0:
        raise UserError(f"{path}: the shard {shard.name!r:.60} counts less than nothing")
    for name, length in wanted.items():
        if name not in shard.files or shard.files[name].bytes != length:
            raise UserError(
                f"{path}: {name} of the shard {shard.name!r:.60} should have {length:,} bytes, by "
                "its counts; prepare the text again"
            )
