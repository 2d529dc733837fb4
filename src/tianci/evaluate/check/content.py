"""What a row says and what is said about it, whatever the task: by the kinds of its fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tianci.data.rows import Field, Row
from tianci.data.rows_fields import LABELLING

JUDGED = ("label", "labels", "number", "tags")  # kinds of which one text has one
ENOUGH = 40  # characters of a text in messages

Splits = dict[str, list[Row]]  # train, dev, test


def input_fields(fields: Sequence[Field]) -> list[Field]:
    """The fields that a model reads; what it shall write is none of them."""
    kinds = (*LABELLING, "flag")
    return [field for field in fields if field.kind not in kinds and field.name != "target"]


def label_field(fields: Sequence[Field], *kinds: str) -> Field | None:
    """The first field of one of these kinds."""
    return next((field for field in fields if field.kind in (kinds or JUDGED)), None)


def texts(row: Row, fields: Sequence[Field]) -> tuple[str, ...]:
    """The texts of a row, one per input field, lists joined."""
    found = []
    for field in input_fields(fields):
        value = row.values.get(field.name, "")
        found.append(value if isinstance(value, str) else " ".join(value))
    return tuple(found)


def judgement(row: Row, field: Field | None) -> Any:
    """The label of a row in a form that can be compared and counted; None where there is none."""
    value = row.values.get(field.name) if field else None
    if isinstance(value, list):
        return tuple(value) if field and field.kind == "tags" else tuple(sorted(value))
    return value


def named(label: Any) -> str:
    """A label as messages show it."""
    text = " ".join(label) if isinstance(label, tuple) else str(label)
    return f'"{text}"' if len(text) <= ENOUGH else f'"{text[:ENOUGH]}..."'
