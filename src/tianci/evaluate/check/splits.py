"""Which file is which split, and its rows; what cannot be read becomes a finding."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tianci.data.rows import Field, Row, RowError, stream_rows
from tianci.data.rows_lines import shown
from tianci.errors import UserError
from tianci.evaluate.check.content import Splits
from tianci.evaluate.check.finding import FAULTS, Finding, found

SPLITS = ("train", "dev", "test")
NAMES = {
    "train": "train",
    **dict.fromkeys(("dev", "valid", "val", "validation", "eval"), "dev"),
    "test": "test",
}

Name = str | Path
Source = Name | Sequence[Row] | Sequence[Name]  # of one split


def by_split(files: Iterable[Name], given: Mapping[str, Sequence[Name]]) -> dict[str, list[Name]]:
    """Files by split: as `given`, else by their names (train_0.jsonl, zh_valid.json), else in the
    order train, dev, test."""
    splits = {name: list(paths) for name, paths in given.items() if paths}
    rest = []
    for file in files:
        words = re.split("[^a-z]+", Path(file).name.lower())
        split = next((NAMES[word] for word in words if word in NAMES), None)
        if split:
            splits.setdefault(split, []).append(file)
        else:
            rest.append(file)
    for file in rest:
        free = next((name for name in SPLITS if name not in splits), SPLITS[-1])
        splits.setdefault(free, []).append(file)
    return {name: splits[name] for name in SPLITS if name in splits}


def read_splits(
    sources: Mapping[str, Source], fields: Sequence[Field], columns: Mapping[str, str] | None
) -> tuple[Splits, list[Finding]]:
    """The rows that can be read, train first, and what is wrong with the others."""
    findings: list[Finding] = []
    order = sorted(sources, key=lambda name: SPLITS.index(name) if name in SPLITS else len(SPLITS))
    splits = {name: _read(name, sources[name], fields, columns, findings) for name in order}
    return splits, findings


def _read(
    split: str,
    source: Source,
    fields: Sequence[Field],
    columns: Mapping[str, str] | None,
    findings: list[Finding],
) -> list[Row]:
    rows: list[Row] = []
    for item in [source] if isinstance(source, str | Path) else source:
        if isinstance(item, Row):
            rows.append(item)
            continue
        path = Path(item)
        if str(path) != "-" and not path.is_file():
            raise UserError(f"{path}: no such file; check the name")
        try:
            for row in stream_rows(path, fields, columns, labelled=True):
                if isinstance(row, Row):
                    rows.append(row)
                else:
                    findings.append(_unreadable(split, path, row))
        except RowError as error:
            findings.append(_unreadable(split, path, error))
        except UserError as error:
            if columns and str(error).startswith("unknown field"):
                raise
            findings.append(_unreadable(split, path, error))  # the rest of the file is lost
    return rows


def _unreadable(split: str, path: Path, error: UserError) -> Finding:
    if isinstance(error, RowError):
        place = Row({}, error.file, error.line, {}, error.unit)
        return found(error.fault, split, place, error.what)
    kind = FAULTS["unreadable file"]
    detail = str(error).removeprefix(f"{shown(path)}: ")
    return Finding(shown(path), 0, "unreadable file", kind.advice, kind.severity, split, detail)
