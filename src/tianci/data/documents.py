"""Files to documents to sentences, streaming: one document and one block of a file in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

from tianci.text.records import is_records, record_lines
from tianci.text.sentences import split_sentences
from tianci.text.source import read_blocks, read_lines

LayoutName = Literal["auto", "lines", "paragraphs", "wrapped"]
BorderName = Literal["auto", "blank", "gap", "line", "file"]
LONGEST = 1 << 20  # characters; a document is cut here, so that memory stays bounded
PROBE = 1 << 20  # characters of a file that decide its layout

LAYOUTS = {
    "lines": "a sentence per line",
    "paragraphs": "free paragraphs, one per line",
    "wrapped": "free paragraphs, broken over lines",
}
BORDERS = {
    "blank": "a document ends at a blank line",
    "gap": "a document ends at two blank lines",
    "line": "each line is a document",
    "file": "the file is one document",
    "record": "each record is a document",
}


@dataclass(frozen=True, slots=True)
class Form:
    """How one file is to be read."""

    layout: str
    borders: str

    def __str__(self) -> str:
        return f"{LAYOUTS[self.layout]}; {BORDERS[self.borders]}"


@dataclass(frozen=True, slots=True)
class Source:
    """One file, the name it is reported by, and its form."""

    path: Path
    name: str
    form: Form


@dataclass(slots=True)
class Document:
    """The lines of one document; `free` when they are paragraphs that hold several sentences."""

    file: str
    line: int
    lines: list[str]
    free: bool
    rows: bool = False  # whether each line here is a line of the file, one after the other

    def sentences(self) -> list[str]:
        """What becomes the sentences of the token store."""
        return to_sentences(self.lines) if self.free else self.lines


def to_sentences(paragraphs: Iterable[str]) -> list[str]:
    """The sentences of all paragraphs, in order."""
    return [sentence for paragraph in paragraphs for sentence in split_sentences(paragraph)]


def examine(path: Path, layout: LayoutName, borders: BorderName, field: str) -> Form:
    """The form of a file: what was asked for, and for the rest what its beginning looks like."""
    lines: list[str] = []
    size, whole = 0, True
    for number, line in read_lines(path):
        texts = (
            record_lines(path, number, line, field) if is_records(path) and line.strip() else [line]
        )
        lines += [text.strip() for text in texts]
        size += len(line) + 1
        if size >= PROBE:
            whole = False
            break
    found = layout if layout != "auto" else guess_layout(lines)
    if is_records(path):
        return Form(found, "record")
    return Form(found, borders if borders != "auto" else guess_borders(lines, found, whole))


def guess_layout(lines: Sequence[str]) -> str:
    """Wrapped when all lines but the last of a block are about equally long, paragraphs when many
    lines hold several sentences."""
    full = [line for line in lines if line]
    if not full:
        return "lines"
    width = sorted(map(len, full))[int(len(full) * 0.95)]
    inner = [line for line, after in pairwise(lines) if line and after]
    even = sum(len(line) >= 0.75 * width for line in inner)
    if 40 <= width <= 130 and len(inner) >= 5 and even > 0.8 * len(inner):
        return "wrapped"
    some = full[:: max(1, len(full) // 500)]
    several = sum(len(split_sentences(line)) > 1 for line in some)
    return "paragraphs" if several > 0.3 * len(some) else "lines"


def guess_borders(lines: Sequence[str], layout: str, whole: bool) -> str:
    """Where documents end, from the blank lines at the beginning of a file."""
    if layout == "lines":
        return "blank" if "" in lines[:-1] else "file"
    inner = [at for at, line in enumerate(lines) if line]
    inside = lines[inner[0] : inner[-1] + 1] if inner else []
    if "" not in inside:
        return "line" if layout == "paragraphs" else "file"
    together = sum(1 for line, after in pairwise(inside) if line and after)
    gaps = any(not line and not after for line, after in pairwise(inside))
    apart = layout == "wrapped" or together < 0.1 * len(inner)
    # In a file of an article's size, a blank line between all paragraphs does not end the document
    return "gap" if apart and (gaps or whole) else "blank"


def read_documents(
    source: Source, field: str, progress: Callable[[int], object] | None = None
) -> Iterator[Document]:
    """The documents of one file, cut where one is longer than a million characters."""
    free = source.form.layout != "lines"
    for document in _borders(source, field, progress):
        if source.form.layout == "wrapped":
            document.lines = _unwrap(document.lines)
        elif "" in document.lines:
            document.lines = [line for line in document.lines if line]
        else:
            document.rows = source.form.borders != "record"
        document.free = free
        if sum(map(len, document.lines)) <= LONGEST:
            yield document
        else:
            yield from _cut(document)


def _borders(
    source: Source, field: str, progress: Callable[[int], object] | None
) -> Iterator[Document]:
    if source.form.borders == "record":
        return _records(source, field, progress)
    if source.form.borders == "blank":
        return _blocks_of_lines(source, progress)
    return _line_by_line(source, progress)


def _records(
    source: Source, field: str, progress: Callable[[int], object] | None
) -> Iterator[Document]:
    number = 0
    for block in read_blocks(source.path, progress):
        for text in block:
            number += 1
            if line := text.strip():
                parts = [part.strip() for part in record_lines(source.path, number, line, field)]
                yield Document(source.name, number, parts, False)


def _blocks_of_lines(
    source: Source, progress: Callable[[int], object] | None
) -> Iterator[Document]:
    """Documents between blank lines, found without a look at each line: the usual form is read
    twice, so it counts."""
    before = first = 0  # lines before this block, the first line of the open document
    opened: list[str] = []
    for block in read_blocks(source.path, progress):
        lines = list(map(str.strip, block))
        at = 0
        while at < len(lines):
            try:
                end = lines.index("", at)
            except ValueError:
                end = len(lines)
            if end > at:
                if not opened:
                    first = before + at + 1
                opened += lines[at:end]
                if sum(map(len, opened)) > LONGEST:
                    *full, (first, opened) = _full_parts(first, opened)
                    yield from (Document(source.name, line, part, False) for line, part in full)
            if end < len(lines) and opened:
                yield Document(source.name, first, opened, False)
                opened = []
            at = end + 1
        before += len(lines)
    if opened:
        yield Document(source.name, first, opened, False)


def _full_parts(first: int, lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Parts that end with the line that makes them longer than a million characters, each with the
    number of its first line; the last one may be short or empty."""
    start = size = 0
    for at, line in enumerate(lines, 1):
        size += len(line)
        if size > LONGEST:
            yield first + start, lines[start:at]
            start, size = at, 0
    yield first + start, lines[start:]


def _line_by_line(source: Source, progress: Callable[[int], object] | None) -> Iterator[Document]:
    blanks_needed = {"gap": 2}.get(source.form.borders, 0)
    number = blanks = size = first = 0
    lines: list[str] = []
    for block in read_blocks(source.path, progress):
        for text in block:
            number += 1
            line = text.strip()
            if not line:
                blanks += 1
                if blanks == blanks_needed and lines:
                    yield Document(source.name, first, lines, False)
                    lines, size = [], 0
                elif lines:
                    lines.append("")
                continue
            if not lines:
                first = number
            blanks = 0
            lines.append(line)
            size += len(line)
            if source.form.borders == "line" or size > LONGEST:
                yield Document(source.name, first, lines, False)
                lines, size = [], 0
    if lines:
        yield Document(source.name, first, lines, False)


def _unwrap(lines: Iterable[str]) -> list[str]:
    """Paragraphs of lines that were broken at a fixed width; a blank line ends one."""
    paragraphs = [""]
    for line in lines:
        if not line:
            paragraphs.append("")
        elif paragraphs[-1]:
            # Chinese has no space to lose at the end of a line
            joint = "" if paragraphs[-1][-1] > "\u2e7f" and line[0] > "\u2e7f" else " "
            paragraphs[-1] += joint + line
        else:
            paragraphs[-1] = line
    return [paragraph for paragraph in paragraphs if paragraph]


def _cut(document: Document) -> Iterator[Document]:
    """Parts of at most a million characters; all have the line where the document began."""
    part: list[str] = []
    size = 0
    for line in document.sentences():
        for start in range(0, len(line), LONGEST):
            piece = line[start : start + LONGEST]
            if part and size + len(piece) > LONGEST:
                yield Document(document.file, document.line, part, False)
                part, size = [], 0
            part.append(piece)
            size += len(piece)
    if part:
        yield Document(document.file, document.line, part, False)
