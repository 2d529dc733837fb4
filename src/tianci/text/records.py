"""Files of JSON lines: one record a line, the text in one of its fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from tianci.errors import UserError
from tianci.text.source import read_blocks


def is_records(path: Path) -> bool:
    """Whether a file holds JSON lines, by its name."""
    names = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in (".gz", ".zst")]
    return bool(names) and names[-1] in (".jsonl", ".ndjson")


def record_lines(path: Path, number: int, line: str, field: str) -> list[str]:
    """The lines of the text in one JSON record."""
    try:
        record: Any = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UserError(f"{path}, line {number}: not JSON ({error})") from error
    if not isinstance(record, dict) or field not in record:
        known = ", ".join(record) if isinstance(record, dict) else f"a {type(record).__name__}"
        raise UserError(
            f'{path}, line {number}: no field "{field}" (there is: {known}); name it with --field'
        )
    text = record[field]
    if not isinstance(text, str):
        raise UserError(
            f'{path}, line {number}: the field "{field}" holds a {type(text).__name__}, not text'
        )
    return text.replace("\r\n", "\n").split("\n")


def text_blocks(
    path: Path, field: str, progress: Callable[[int], object] | None = None
) -> Iterator[list[str]]:
    """Lines of text, a list at a time, from a plain file or from the records of a JSON-lines
    file."""
    number = 0
    for block in read_blocks(path, progress):
        if not is_records(path):
            yield block
            continue
        lines: list[str] = []
        for line in block:
            number += 1
            if line and not line.isspace():
                lines += record_lines(path, number, line, field)
        yield lines
