"""Labelled files as rows: JSON lines, TSV, CSV, CoNLL, SQuAD JSON, plain text; also with .gz."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tianci.data.entity_spans import ENTITIES, words_and_tags
from tianci.data.rows_fields import LABELLING, Field, match_columns, value_of
from tianci.data.rows_files import Record, read_records, suffix_of
from tianci.data.rows_lines import RowError, shown
from tianci.errors import UserError

__all__ = ["Field", "Row", "RowError", "read_rows", "stream_rows"]


@dataclass(frozen=True)
class Row:
    """One example of a file, its values by our names."""

    values: dict[str, Any]
    file: str
    line: int  # from 1; in .json files the number of the question or record
    extra: dict[str, Any]
    unit: str = "line"

    @property
    def place(self) -> str:
        """Where it is, as messages say it."""
        return f"{self.file}, {self.unit} {self.line}"


def read_rows(
    path: str | Path,
    fields: Sequence[Field],
    columns: Mapping[str, str] | None = None,
    labelled: bool = True,
) -> list[Row]:
    """All rows of a file; the first one that is wrong is an error."""
    rows = []
    for row in stream_rows(path, fields, columns, labelled):
        if isinstance(row, UserError):
            raise row
        rows.append(row)
    return rows


def stream_rows(
    path: str | Path,
    fields: Sequence[Field],
    columns: Mapping[str, str] | None = None,
    labelled: bool = False,
) -> Iterator[Row | UserError]:
    """The rows of a file or of standard input (-), as they come; in place of a bad row its error.

    `columns` says which column is which field, {"text": "review_body"}; numbers ({"text": "2"})
    are for tables without a header. Without `labelled`, labels may be missing.
    """
    path = Path(path)
    reader = _Reader(tuple(fields), dict(columns or {}), labelled, path)
    plain = next((field.name for field in fields if field.kind == "text"), "text")
    empty = True
    for record in read_records(path, plain, reader.header):
        empty = False
        yield record if isinstance(record, RowError) else reader.row(record)
    if empty:
        yield UserError(f"{shown(path)}: no rows in it; give a file with at least one example")


class _Reader:
    """Turns the records of one file into rows."""

    def __init__(
        self, fields: tuple[Field, ...], given: dict[str, str], labelled: bool, path: Path
    ):
        self.fields, self.given, self.path = fields, given, path
        self.needed = {
            field.name
            for field in fields
            if field.required and (labelled or field.kind not in LABELLING)
        }
        self.known: dict[tuple[str, ...], dict[str, str]] = {}
        match_columns(fields, (), given)  # a field that does not exist is told before any row

    def header(self, line: int, cells: list[str]) -> list[str] | None:
        """The column names of a table; None when the user gave numbers that are no names there."""
        numbers = [name for name in self.given.values() if name.isdecimal() and name not in cells]
        if numbers and len(numbers) == len(self.given):
            return None
        names = tuple(cell.strip() for cell in cells)
        match = match_columns(self.fields, names, self.given)
        for field in self.fields:  # said once here, not for each row
            if field.name in self.needed and field.name not in match:
                what = self._missing(field, names)
                raise RowError("missing column", shown(self.path), line, what)
        return list(names)

    def row(self, record: Record) -> Row | RowError:
        """The row of a record, or what is wrong with it."""
        keys = tuple(record.columns)
        if keys not in self.known:
            self.known[keys] = match_columns(self.fields, keys, self.given)
        match = self.known[keys]
        try:
            values = self._from_entities(record, match)
        except ValueError as error:
            return self._bad("wrong entities", record, f"the list of entities {error}")
        for field in self.fields:
            if field.name in values:
                continue
            if field.name not in match:
                if field.name in self.needed:
                    return self._bad("missing column", record, self._missing(field, keys))
                continue
            column = match[field.name]
            try:
                value = value_of(field, record.columns[column])
            except ValueError as error:
                fault = "not a finite number" if field.kind == "number" else "wrong type"
                return self._bad(fault, record, f'the column "{column}" {error}')
            if value is not None:
                values[field.name] = value
            elif field.name in self.needed:
                what = f'the column "{column}" is empty; fill it in, or leave out the row'
                return self._bad("missing value", record, what)
        if wrong := self._lengths(values):
            return self._bad("tags and words differ", record, wrong)
        taken = {*match.values(), *([ENTITIES] if ENTITIES in record.columns else [])}
        extra = {name: value for name, value in record.columns.items() if name not in taken}
        return Row(values, shown(self.path), record.line, extra, record.unit)

    def _from_entities(self, record: Record, match: Mapping[str, str]) -> dict[str, Any]:
        """Words and tags, where a row has a text and its entities instead."""
        tags, words, text = (
            next((field.name for field in self.fields if field.kind == kind), "")
            for kind in ("tags", "words", "text")
        )
        spans = record.columns.get(match.get(tags, ENTITIES))
        whole = record.columns.get(match.get(text, ""))
        if not tags or words in match or not isinstance(whole, str) or not _are_entities(spans):
            return {}
        if tags in match and not spans:
            return {}  # no tags, not no entities
        found = words_and_tags(whole, spans)
        return {words: found[0], tags: found[1]}

    def _bad(self, fault: str, record: Record, what: str) -> RowError:
        return RowError(fault, shown(self.path), record.line, what, record.unit)

    def _missing(self, field: Field, keys: tuple[str, ...]) -> str:
        there = ", ".join(keys) or "nothing"
        if field.name in self.given:
            return f'no column "{self.given[field.name]}" for {field.name} (there is: {there})'
        if suffix_of(self.path) == ".txt":
            return (
                f"a .txt file holds one text per line and no {field.name}; "
                "use .tsv or .csv with a header, or .jsonl"
            )
        if suffix_of(self.path) in (".conll", ".bio") and field.kind == "tags":
            return "no tags beside the words; write word TAB tag"
        return (
            f"no column for {field.name} (there is: {there}); "
            f"name it with --column {field.name}=NAME"
        )

    def _lengths(self, values: Mapping[str, Any]) -> str | None:
        words = next((f.name for f in self.fields if f.kind == "words" and f.name in values), None)
        tags = next((f.name for f in self.fields if f.kind == "tags" and f.name in values), None)
        if words is None or tags is None or len(values[words]) == len(values[tags]):
            return None
        return f"{len(values[words])} words but {len(values[tags])} tags; give one tag per word"


def _are_entities(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def make_row(
    columns: Mapping[str, Any], fields: Sequence[Field], number: int, source: str = "input"
) -> Row | UserError:
    """The row of values that come from no file: a call, a request. Labels may be missing."""
    reader = _Reader(tuple(fields), {}, False, Path(source))
    return reader.row(Record(dict(columns), number, "row"))
