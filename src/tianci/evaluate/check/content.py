"""What a row says and what is said about it, whatever the task: by the kinds of its fields."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tianci.data.rows import Field, Row
from tianci.data.rows_fields import LABELLING

JUDGED = ("label", "labels", "number", "tags")  # kinds of which one text has one
JOINT = "\0"  # between words: no text has it, and it is no white space
ENOUGH = 40  # characters of a text in messages

Splits = dict[str, list[Row]]  # train, dev, test


def input_fields(fields: Sequence[Field]) -> list[Field]:
    """The fields that a model reads; what it shall write is none of them."""
    kinds = (*LABELLING, "flag")
    return [field for field in fields if field.kind not in kinds and field.name != "target"]


def label_field(fields: Sequence[Field], *kinds: str) -> Field | None:
    """The first field of one of these kinds."""
    return next((field for field in fields if field.kind in (kinds or JUDGED)), None)


def texts(row: Row, inputs: Sequence[Field]) -> tuple[str, ...]:
    """The texts of a row, one per input field, lists joined."""
    found = []
    for field in inputs:
        value = row.values.get(field.name, "")
        found.append(value if isinstance(value, str) else JOINT.join(value))
    return tuple(found)


def judgement(row: Row, field: Field | None) -> Any:
    """The label of a row in a form that can be compared and counted; None where there is none."""
    value = row.values.get(field.name) if field else None
    if isinstance(value, list):
        return tuple(value) if field and field.kind == "tags" else "|".join(sorted(value))
    return value


def short(twin: Row, row: Row) -> str:
    """Where a twin of a row is; without the folder, unless that is what tells the files apart."""
    name = Path(twin.file).name
    if twin.file != row.file and name == Path(row.file).name:
        name = twin.file
    return f"{name}, {twin.unit} {twin.line}"


def contrast(one: Any, other: Any) -> tuple[str, str]:
    """Two labels as messages show them; of tags the first that differ."""
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other) > 1:
        at = next(n for n, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1])
        return f"{named(one[at])} at word {at + 1}", named(other[at])
    return named(one), named(other)


def named(label: Any) -> str:
    """A label as messages show it."""
    text = " ".join(label) if isinstance(label, tuple) else str(label)
    return f'"{text}"' if len(text) <= ENOUGH else f'"{text[:ENOUGH]}..."'
