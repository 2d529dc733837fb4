"""Records out of files, one reader per format: JSON lines, tables, CoNLL, SQuAD, plain text.

A record is a dictionary by the file's own column names; what the columns mean is not known here.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tianci.data.rows_lines import RowError, each_line, shown, whole_text
from tianci.errors import UserError
from tianci.text.source import STDIN

DOCUMENT_START = "-DOCSTART-"  # a line of its own in CoNLL-2003, between two documents
LONGEST_CELL = 1 << 28  # characters; the csv module stops at 131,072, some documents are longer


@dataclass(frozen=True)
class Record:
    """The columns of one row and where it begins."""

    columns: dict[str, Any]
    line: int
    unit: str = "line"


Records = Iterator[Record | RowError]
# from the line and the cells of the first row to the column names; None: it is a row like others
Header = Callable[[int, list[str]], list[str] | None]


def read_records(path: Path, plain: str, header: Header) -> Records:
    """The records of a file by its suffix; `plain` names the column of files of plain text."""
    suffix = suffix_of(path)
    if path == STDIN:
        return _lines_of_either(path, plain)
    if suffix in (".jsonl", ".ndjson"):
        return _json_lines(path)
    if suffix == ".tsv":
        return _table(path, _tab_rows(path), header)
    if suffix == ".csv":
        return _table(path, _comma_rows(path), header)
    if suffix in (".conll", ".bio"):
        return _sentences(path)
    if suffix == ".json":
        return _json(path)
    if suffix == ".txt":
        return _plain_lines(path, plain)
    raise UserError(
        f"{path}: labelled files end in .jsonl, .tsv, .csv, .conll, .bio, .json or .txt "
        f'(also with .gz), not in "{suffix}"; rename or convert it'
    )


def suffix_of(path: Path) -> str:
    """What says the format: the last suffix in lower case, that of a compression aside."""
    names = [suffix.lower() for suffix in path.suffixes]
    return next((name for name in reversed(names) if name not in (".gz", ".zst")), "")


def _json_lines(path: Path) -> Records:
    for number, line in each_line(path):
        if isinstance(line, RowError):
            yield line
        elif line and not line.isspace():
            yield _json_record(shown(path), number, line)


def _json_record(name: str, number: int, line: str) -> Record | RowError:
    try:
        record = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        return RowError("not JSON", name, number, f"not JSON ({error}); write one object per line")
    if not isinstance(record, dict):
        what = f'{_kind(record)}, not an object with named columns such as {{"text": ...}}'
        return RowError("not JSON", name, number, what)
    return Record(record, number)


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _plain_lines(path: Path, plain: str) -> Records:
    for number, line in each_line(path):
        yield line if isinstance(line, RowError) else Record({plain: line}, number)


def _lines_of_either(path: Path, plain: str) -> Records:
    """JSON objects and plain texts, whichever a line looks like."""
    for number, line in each_line(path):
        if isinstance(line, RowError):
            yield line
        elif line.lstrip().startswith("{"):
            yield _json_record(shown(path), number, line)
        else:
            yield Record({plain: line}, number)


def _tab_rows(path: Path) -> Iterator[tuple[int, list[str]] | RowError]:
    for number, line in each_line(path):
        if isinstance(line, RowError):
            yield line
        elif line and not line.isspace():
            yield number, line.split("\t")


class _Feed:
    """Lines for the csv module; remembers where a row begins and which lines were broken."""

    def __init__(self, path: Path):
        self.lines = each_line(path)
        self.first = 0
        self.broken: list[RowError] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        for number, line in self.lines:
            if isinstance(line, RowError):
                self.broken.append(line)
            else:
                self.first = self.first or number
                return line + "\n"
        raise StopIteration


def _comma_rows(path: Path) -> Iterator[tuple[int, list[str]] | RowError]:
    csv.field_size_limit(LONGEST_CELL)
    feed = _Feed(path)
    rows = csv.reader(feed, strict=True)
    while True:
        feed.first = 0
        try:
            cells = next(rows, None)
        except csv.Error as error:
            cells = []
            what = f"the quotes cannot be read as CSV ({error}); double those inside a cell"
            yield RowError("ragged row", shown(path), feed.first, what)
        yield from feed.broken
        feed.broken.clear()
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield feed.first, cells


def _table(path: Path, rows: Iterator[tuple[int, list[str]] | RowError], header: Header) -> Records:
    names: list[str] = []
    found: list[str] | None = None
    for row in rows:
        if isinstance(row, RowError):
            yield row
            continue
        line, cells = row
        if not names:
            found = header(line, cells)
            names = found or [str(number) for number in range(1, len(cells) + 1)]
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                what = f'the header has the column "{twice[0]}" twice; rename one of them'
                raise RowError("column twice", shown(path), line, what)
            if found:
                continue
        if found and [cell.strip() for cell in cells] == names:
            what = "the header comes again; remove this line"
            yield RowError("header again", shown(path), line, what)
        elif len(cells) == len(names):
            yield Record(dict(zip(names, cells, strict=True)), line)
        else:
            what = (
                f"{len(cells)} columns, but the header has {len(names)} ({', '.join(names)}); "
                "look for a missing or an extra separator"
            )
            yield RowError("ragged row", shown(path), line, what)


def _sentences(path: Path) -> Records:
    """Sentences of CoNLL columns: the first is the word, the last is the tag.

    The words of a sentence stand on consecutive lines, so word n is on line `line + n`.
    """
    rows: list[list[str]] = []
    broken: list[RowError] = []
    first = 0
    for number, line in each_line(path):
        if isinstance(line, RowError):
            broken.append(line)
        elif line and not line.isspace():
            first = first or number
            rows.append(line.split("\t") if "\t" in line else line.split())
        else:
            yield from broken or _sentence(path, first, rows)
            rows, broken, first = [], [], 0
    yield from broken or _sentence(path, first, rows)


def _sentence(path: Path, first: int, rows: list[list[str]]) -> Records:
    if not rows or (len(rows) == 1 and rows[0][0] == DOCUMENT_START):
        return
    columns = {"words": [row[0] for row in rows], "tags": [row[-1] for row in rows]}
    alone = [at for at, row in enumerate(rows) if len(row) == 1 or not row[-1].strip()]
    if len(alone) == len(rows):
        del columns["tags"]  # words only, for prediction
    elif alone:
        what = f'no tag beside "{rows[alone[0]][0]}"; write word TAB tag'
        yield RowError("ragged row", shown(path), first + alone[0], what)
        return
    yield Record(columns, first)


def _json(path: Path) -> Records:
    """SQuAD, a list of records, or JSON lines under another name (as CLUE has them)."""
    try:
        content = msgspec.json.decode(whole_text(path))
    except (msgspec.DecodeError, RecursionError):
        yield from _json_lines(path)
        return
    if isinstance(content, dict) and isinstance(content.get("data"), list):
        yield from _squad(path, content["data"])
    elif isinstance(content, list):
        for number, record in enumerate(content, 1):
            if isinstance(record, dict):
                yield Record(record, number, "record")
            else:
                what = f"{_kind(record)}, not an object with named columns"
                yield RowError("not JSON", shown(path), number, what, "record")
    elif isinstance(content, dict):
        yield Record(content, 1)
    else:
        raise UserError(f"{path}: neither SQuAD JSON nor a list of records; see the documentation")


def _squad(path: Path, articles: list[Any]) -> Records:
    number = 0
    try:
        for article in articles:
            title = {"title": article["title"]} if "title" in article else {}
            for paragraph in article["paragraphs"]:
                context = paragraph["context"]
                for question in paragraph["qas"]:
                    number += 1
                    columns = {**title, "context": context, **_question(question)}
                    yield Record(columns, number, "question")
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path}, after question {number}: not in SQuAD's form ({error!r}): data, paragraphs, "
            "context, qas, question, answers"
        ) from error


def _question(question: dict[str, Any]) -> dict[str, Any]:
    """The columns of one question; that it has no answer is said by SQuAD 2 or by an empty list."""
    columns = {name: value for name, value in question.items() if name != "is_impossible"}
    if "is_impossible" in question:
        columns["impossible"] = question["is_impossible"]
    elif "answers" in question:
        columns["impossible"] = not question["answers"]
    return columns
