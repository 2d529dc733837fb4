"""Raw text from files: plain, .gz, .zst or standard input, a piece at a time."""

from __future__ import annotations

import glob
import gzip
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from tianci.errors import UserError, need

CHUNK = 1 << 20  # bytes read at once: large enough to decode fast, small enough for any machine
LONGEST_LINE = 1 << 25  # more would break the promise of bounded memory
STDIN = Path("-")
MARKS = ((b"\xef\xbb\xbf", ""), (b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))


def find_files(paths: Iterable[str | Path]) -> list[Path]:
    """The files behind names, directories and globs: in the order given, sorted within each."""
    found: dict[Path, None] = {}
    for name in paths:
        path = Path(name)
        if path == STDIN:
            matches = [path]
        elif path.is_dir():
            inside = (file for file in path.rglob("*") if file.is_file())
            visible = [f for f in inside if not any(p[0] == "." for p in f.relative_to(path).parts)]
            matches = sorted(file for file in visible if file.stat().st_size)
            if not matches:
                raise UserError(f"{path}: no file with text in this directory")
        elif path.exists():
            if path.is_file() and not path.stat().st_size:
                raise UserError(f"{path}: the file is empty; give a file with text")
            matches = [path]
        else:
            matches = sorted(Path(m) for m in glob.glob(str(path), recursive=True))
            matches = [file for file in matches if file.is_file() and file.stat().st_size]
            if not matches:
                reason = "no file matches" if glob.has_magic(str(path)) else "no such file"
                raise UserError(f"{path}: {reason}; check the name")
        found.update(dict.fromkeys(matches))
    if not found:
        raise UserError("no text given; name at least one file, or - for standard input")
    return list(found)


def total_bytes(files: Iterable[Path]) -> int | None:
    """Bytes on disk (compressed where the file is), or None when standard input is among them."""
    files = list(files)
    return None if STDIN in files else sum(file.stat().st_size for file in files)


def read_lines(
    path: Path, progress: Callable[[int], object] | None = None
) -> Iterator[tuple[int, str]]:
    """Line numbers from 1, lines without their end; `progress` hears of bytes taken from disk."""
    number = 0
    for lines in read_blocks(path, progress):
        for number, line in enumerate(lines, number + 1):  # noqa: B020 - goes on counting
            yield number, line


def read_blocks(path: Path, progress: Callable[[int], object] | None = None) -> Iterator[list[str]]:
    """The same lines, a list at a time: for those who do not need the numbers."""
    path = Path(path)
    before = 0  # lines of earlier blocks
    told = 0
    with opened(path) as (raw, stream):
        for block in _whole_lines(path, stream):
            yield (lines := _decode(path, block, before))
            before += len(lines)
            if progress:
                at = told + len(block) if path == STDIN else raw.tell()
                progress(at - told)
                told = at


@contextmanager
def opened(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """The file on disk and the stream of its plain bytes."""
    if path == STDIN:
        yield sys.stdin.buffer, sys.stdin.buffer
        return
    try:
        raw = path.open("rb")
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    with raw:
        if path.suffix == ".gz":
            yield raw, cast(BinaryIO, gzip.GzipFile(fileobj=raw))
        elif path.suffix == ".zst":
            yield (
                raw,
                need("zstandard", "data")
                .ZstdDecompressor()
                .stream_reader(raw, read_across_frames=True),
            )
        else:
            yield raw, raw


def _whole_lines(path: Path, stream: BinaryIO) -> Iterator[bytes]:
    """Blocks of bytes that end where a line ends."""
    parts: list[bytes] = []
    size = lines = 0
    for chunk in _chunks(path, stream):
        end = chunk.rfind(b"\n") + 1
        if end:
            block = b"".join((*parts, chunk[:end]))
            yield block
            lines += block.count(b"\n")
            parts, size = [], 0
        if end < len(chunk):
            parts.append(chunk[end:])
            size += len(chunk) - end
            if size > LONGEST_LINE:
                raise UserError(
                    f"{path}, line {lines + 1}: longer than {LONGEST_LINE >> 20} MB; "
                    "break the text into lines"
                )
    if parts:
        yield b"".join(parts)


def _chunks(path: Path, stream: BinaryIO) -> Iterator[bytes]:
    """The bytes of a file, without the mark that some programs put first."""
    size = 0
    while True:
        try:
            chunk = stream.read(CHUNK)
        except Exception as error:
            if not is_damage(error):
                raise
            raise UserError(
                f"{path}: damaged after {size:,} bytes of text ({error}); make the file again"
            ) from error
        if not size:
            chunk = without_mark(path, chunk)
        if not chunk:
            return
        size += len(chunk)
        yield chunk


def is_damage(error: Exception) -> bool:
    """Whether an error of reading says that a compressed file is damaged."""
    # zstandard raises a class of its own, known only where it is installed
    return isinstance(error, EOFError | OSError | zlib.error) or type(error).__name__ == "ZstdError"


def without_mark(path: Path, chunk: bytes) -> bytes:
    for mark, encoding in MARKS:
        if chunk.startswith(mark):
            if encoding:
                raise UserError(
                    f"{path}, line 1: this is {encoding}, not UTF-8; convert it first: "
                    f"iconv -f {encoding} -t UTF-8"
                )
            return chunk[len(mark) :]
    return chunk


def _decode(path: Path, block: bytes, before: int) -> list[str]:
    """The lines of a block; only \\n and \\r\\n end a line, so str.splitlines is no choice."""
    if b"\0" in block:
        line = before + block.count(b"\n", 0, block.index(b"\0")) + 1
        raise UserError(
            f"{path}, line {line}: a NUL byte; this is not a text file, or it is damaged"
        )
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError as error:
        line = before + block.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{path}, line {line}: byte 0x{block[error.start]:02x} is not UTF-8; "
            "convert the file first, for example: iconv -f GB18030 -t UTF-8"
        ) from error
    lines = text.replace("\r\n", "\n").split("\n") if "\r" in text else text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines
