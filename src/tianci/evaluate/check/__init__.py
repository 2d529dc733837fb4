"""Are labelled files fit to learn and to measure with? Alone, and before each fine-tuning."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tianci.data.rows import Field, Row, RowError, stream_rows
from tianci.errors import UserError, unknown
from tianci.evaluate.check.answers import find_answer_faults, find_choice_faults
from tianci.evaluate.check.content import Splits
from tianci.evaluate.check.copies import find_copies
from tianci.evaluate.check.fields import FIELDS
from tianci.evaluate.check.finding import (
    FAULTS,
    Finding,
    Group,
    found,
    grouped,
    ranked,
    stopping,
)
from tianci.evaluate.check.labels import find_label_faults
from tianci.evaluate.check.tags import find_tag_faults
from tianci.evaluate.check.texts import find_long_texts, find_text_faults
from tianci.goals.tasks import make_task, task_names
from tianci.goals.tasks.base import Task
from tianci.text.tokenizer import Tokenizer

__all__ = ["Finding", "Group", "Report", "by_split", "check", "examine", "grouped", "stopping"]

SPLITS = ("train", "dev", "test")
NAMES = {
    "train": "train",
    **dict.fromkeys(("dev", "valid", "val", "validation", "eval"), "dev"),
    "test": "test",
}

Source = str | Path | Sequence[Row] | Sequence[str | Path]  # of one split


@dataclass(frozen=True)
class Report:
    """What was read and what was found, the most serious first."""

    splits: Splits
    findings: list[Finding]


def check(
    files: Mapping[str, Source],
    task: str | Task,
    columns: Mapping[str, str] | None = None,
    tokenizer: Tokenizer | None = None,
    limit: int | None = None,
) -> list[Finding]:
    """One finding per place: check({"train": "train.jsonl", "dev": rows}, "classify").

    With a tokenizer and the number of tokens that a model reads, also texts that will be cut.
    """
    return examine(files, task, columns, tokenizer, limit).findings


def examine(
    files: Mapping[str, Source],
    task: str | Task,
    columns: Mapping[str, str] | None = None,
    tokenizer: Tokenizer | None = None,
    limit: int | None = None,
) -> Report:
    """The same with the rows that were read."""
    made = _task(task)
    fields = made.columns() if made else FIELDS[str(task)]
    findings: list[Finding] = []
    order = sorted(files, key=lambda name: SPLITS.index(name) if name in SPLITS else len(SPLITS))
    splits = {name: _read(name, files[name], fields, columns, findings) for name in order}
    read = {name: rows for name, rows in splits.items() if rows}
    findings += find_label_faults(read, fields)
    findings += find_copies(read, fields)
    findings += find_text_faults(read, fields)
    findings += find_answer_faults(read, fields)
    findings += find_choice_faults(read, fields)
    findings += find_tag_faults(read, fields)
    if made and tokenizer and limit:
        findings += find_long_texts(read, made, tokenizer, limit)
    return Report(splits, ranked(findings))


def by_split(
    files: Iterable[str | Path], **given: Sequence[str | Path]
) -> dict[str, list[str | Path]]:
    """Files by split: as `given`, else by their names (train_0.jsonl, zh_valid.json), else in the
    order train, dev, test."""
    found: dict[str, list[str | Path]] = {
        name: list(paths) for name, paths in given.items() if paths
    }
    rest = []
    for file in files:
        words = re.split("[^a-z]+", Path(file).name.lower())
        split = next((NAMES[word] for word in words if word in NAMES), None)
        if split:
            found.setdefault(split, []).append(file)
        else:
            rest.append(file)
    for file in rest:
        free = next((name for name in SPLITS if name not in found), SPLITS[-1])
        found.setdefault(free, []).append(file)
    return {name: found[name] for name in SPLITS if name in found}


def _task(task: str | Task) -> Task | None:
    """The task; None for those that have no file yet."""
    if isinstance(task, Task):
        return task
    if task in task_names() or "." in task:
        return make_task(task)
    if task in FIELDS:
        return None
    raise unknown("task", task, [*task_names(), *FIELDS])


def _read(
    split: str,
    source: Source,
    fields: Sequence[Field],
    columns: Mapping[str, str] | None,
    findings: list[Finding],
) -> list[Row]:
    """The rows of a split that can be read; what is wrong with the others goes to `findings`."""
    rows: list[Row] = []
    for item in [source] if isinstance(source, str | Path) else source:
        if isinstance(item, Row):
            rows.append(item)
            continue
        if item != "-" and not Path(item).is_file():
            raise UserError(f"{item}: no such file; check the name")
        try:
            for row in stream_rows(item, fields, columns, labelled=True):
                if isinstance(row, Row):
                    rows.append(row)
                else:
                    findings.append(_unreadable(split, str(item), row))
        except UserError as error:  # the rest of the file is lost
            findings.append(_unreadable(split, str(item), error))
    return rows


def _unreadable(split: str, file: str, error: UserError) -> Finding:
    if isinstance(error, RowError):
        place: Any = Row({}, error.file, error.line, {}, error.unit)
        return found(error.fault, split, place, error.what)
    kind = FAULTS["unreadable file"]
    return Finding(file, 0, "unreadable file", kind.advice, kind.severity, split, str(error))
