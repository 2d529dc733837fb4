"""The lines of a labelled file, one by one: a line that cannot be read does not hide the others."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from tianci.errors import UserError
from tianci.text.source import CHUNK, LONGEST_LINE, STDIN, is_damage, opened, without_mark


class RowError(UserError):
    """One row that cannot be used; `fault` is the kind of fault, for those who count them."""

    def __init__(self, fault: str, file: str, line: int, what: str, unit: str = "line"):
        super().__init__(f"{file}, {unit} {line}: {what}")
        self.fault, self.file, self.line, self.unit, self.what = fault, file, line, unit, what


def shown(path: Path) -> str:
    """What a file is called in messages."""
    return "standard input" if path == STDIN else str(path)


def each_line(path: Path) -> Iterator[tuple[int, str | RowError]]:
    """Line numbers from 1 and lines without their end; in place of a broken line what is wrong."""
    name = shown(path)
    number = 0
    with opened(path) as (_, stream):
        # line by line, so that the answer to a line on standard input does not wait for the next
        lines = stream if path == STDIN else io.BufferedReader(cast(io.RawIOBase, stream), CHUNK)
        while True:
            try:
                line = lines.readline(LONGEST_LINE + 1)
            except Exception as error:
                if not is_damage(error):
                    raise
                raise UserError(
                    f"{name}: damaged after line {number} ({error}); make the file again"
                ) from error
            if not line:
                return
            number += 1
            if len(line) > LONGEST_LINE:
                raise UserError(f"{name}, line {number}: longer than {LONGEST_LINE >> 20} MB")
            if number == 1:
                line = without_mark(path, line)
            yield number, _decode(name, number, line)


def whole_text(path: Path) -> str:
    """All of a file, for formats in which a row is no line."""
    lines = []
    for _, line in each_line(path):
        if isinstance(line, RowError):
            raise line
        lines.append(line)
    return "\n".join(lines)


def _decode(name: str, number: int, line: bytes) -> str | RowError:
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    if (at := line.find(b"\0")) >= 0:
        what = f"a NUL byte (byte {at + 1} of the line); this is not text, or it is damaged"
        return RowError("broken UTF-8", name, number, what)
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        what = (
            f"byte {error.start + 1} of the line (0x{line[error.start]:02x}) is not UTF-8; "
            "convert the file first, for example: iconv -f GB18030 -t UTF-8"
        )
        return RowError("broken UTF-8", name, number, what)
