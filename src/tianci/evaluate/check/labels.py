"""Labels: one class only, classes that train does not have, classes with hardly any rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tianci.data.rows import Field, Row
from tianci.evaluate.check.content import Splits, judgement, label_field, named
from tianci.evaluate.check.finding import Finding, found

RARE = 5  # rows of a class that are too few to learn from


def find_label_faults(splits: Splits, fields: Sequence[Field]) -> Iterator[Finding]:
    """All findings about classes; a label that is the number of a choice is no class."""
    field = label_field(fields)
    if field is None or not field.required:
        return  # what may be missing is no class
    if field.kind == "label" and label_field(fields, "texts"):
        return
    for name, rows in splits.items():
        yield from _one_class(name, rows, field)
    if field.kind == "number":
        return
    train = _classes(splits.get("train", []), field)
    for label, (count, row) in train.items():
        if count < RARE:
            rows_of = "1 row" if count == 1 else f"{count} rows"
            yield found("rare class", "train", row, f"{named(label)} in {rows_of}")
    for name, rows in splits.items():
        for label, (count, row) in _classes(rows, field).items():
            if train and label not in train:
                rows_of = "1 row" if count == 1 else f"{count:,} rows"
                yield found("label not in train", name, row, f"{named(label)} in {rows_of}")


def _one_class(name: str, rows: Sequence[Row], field: Field) -> Iterator[Finding]:
    if field.kind == "tags":
        labels = {tag for row in rows for tag in row.values.get(field.name, ())}
    else:
        labels = {judgement(row, field) for row in rows} - {None}
    if len(labels) == 1:
        detail = f"all {len(rows):,} rows have {named(labels.pop())}"
        yield found("one class only", name, rows[0], detail)


def _classes(rows: Sequence[Row], field: Field) -> dict[str, tuple[int, Row]]:
    """Class to the number of its rows and the first of them; for tags the types of entities."""
    found: dict[str, tuple[int, Row]] = {}
    for row in rows:
        value = row.values.get(field.name)
        if value is None:
            continue
        if field.kind == "tags":
            names = {tag[2:] if tag[1:2] == "-" and len(tag) > 2 else tag for tag in value}
        else:
            names = {value} if isinstance(value, str) else set(value)
        for label in sorted(names):
            count, first = found.get(label, (0, row))
            found[label] = (count + 1, first)
    return found
