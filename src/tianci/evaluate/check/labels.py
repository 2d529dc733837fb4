"""Labels: one class only, classes that train does not have, classes with hardly any rows."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Sequence

from tianci.data.rows import Field, Row
from tianci.evaluate.check.content import Splits, judgement, label_field, named
from tianci.evaluate.check.finding import Finding, found

RARE = 5  # rows of a class that are too few to learn from
MOSTLY = 0.8  # of the labels: if so many are numbers, the others are slips
FAR = 10.0  # times the range of the middle half, beyond which a number is far off


def find_label_faults(splits: Splits, fields: Sequence[Field]) -> Iterator[Finding]:
    """All findings about classes; a label that is the number of a choice is no class."""
    field = label_field(fields)
    if field is None:
        return
    if not field.required:  # what may be missing is no class, but a score or nothing
        yield from _mixed(splits, field)
        return
    if field.kind == "label" and label_field(fields, "texts"):
        return
    for name, rows in splits.items():
        yield from _one_class(name, rows, field)
    if field.kind == "number":
        yield from _far_off(splits, field)
        return
    yield from _spellings(splits, field)
    train = _classes(splits.get("train", []), field)
    for label, (count, row) in train.items():
        if count < RARE:
            yield found("rare class", "train", row, f"{named(label)} in {_rows(count)}")
    for name, rows in splits.items():
        for label, (count, row) in _classes(rows, field).items():
            if train and label not in train:
                yield found("label not in train", name, row, f"{named(label)} in {_rows(count)}")


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


def _spellings(splits: Splits, field: Field) -> Iterator[Finding]:
    """Classes whose names differ in nothing that people would mean; the rarer one is named."""
    rows: dict[str, tuple[int, str, Row]] = {}
    for split, some in splits.items():
        for label, (count, row) in _classes(some, field).items():
            before = rows.get(label)
            rows[label] = (count + before[0], *before[1:]) if before else (count, split, row)
    by_form: dict[str, list[str]] = {}
    for label in rows:
        form = "".join(unicodedata.normalize("NFKC", label).casefold().split())
        by_form.setdefault(form, []).append(label)
    for labels in by_form.values():
        usual = max(labels, key=lambda label: rows[label][0])
        for label in labels:
            if label != usual:
                count, split, row = rows[label]
                detail = f"{named(label)} in {_rows(count)}, {named(usual)} in the others"
                yield found("label spelled in two ways", split, row, detail)


def _mixed(splits: Splits, field: Field) -> Iterator[Finding]:
    """Labels that are no numbers among many that are."""
    for split, rows in splits.items():
        said = [(row, str(row.values[field.name])) for row in rows if field.name in row.values]
        wrong = [(row, label) for row, label in said if _number(label) is None]
        if said and len(wrong) <= (1 - MOSTLY) * len(said):
            for row, label in wrong:
                yield found("label is no number", split, row, named(label))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _far_off(splits: Splits, field: Field) -> Iterator[Finding]:
    """Numbers far outside of the middle half of all: a lost decimal point, another scale."""
    values = sorted(row.values[field.name] for rows in splits.values() for row in rows)
    if not values:
        return
    low, high = values[len(values) // 4], values[(3 * len(values)) // 4]
    reach = FAR * (high - low)
    if not reach:
        return
    for split, rows in splits.items():
        for row in rows:
            value = row.values[field.name]
            if not low - reach <= value <= high + reach:
                detail = f"{value:g}; half of all are between {low:g} and {high:g}"
                yield found("number far off", split, row, detail)


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"
