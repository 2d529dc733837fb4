"""Rows that come again: inside a split and across splits, with the same label and with another.

Two texts are the same when they differ in nothing but white space; they are nearly the same when
case, width and punctuation are all that differs, or when nine tenths of their shingles agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from tianci.data.rows import Field, Row
from tianci.evaluate.check.content import (
    Splits,
    contrast,
    input_fields,
    judgement,
    label_field,
    short,
    texts,
)
from tianci.evaluate.check.finding import Finding, found
from tianci.evaluate.check.near import Parts, near_copies, normal

MOST = 0.5  # of the rows of a split: so many copies leave nothing to measure


class _Split:
    """The rows of a split by their text."""

    def __init__(
        self, name: str, rows: Sequence[Row], inputs: Sequence[Field], label: Field | None
    ):
        self.name, self.rows = name, rows
        self.texts = [texts(row, inputs) for row in rows]
        self.keys = [tuple("".join(part.split()) for part in text) for text in self.texts]
        self.labels = [judgement(row, label) for row in rows]
        self.first: dict[Parts, int] = {}
        self.labelled: dict[Parts, dict[Any, int]] = {}  # text -> label -> first row with it
        for number, key in enumerate(self.keys):
            if any(key):
                self.first.setdefault(key, number)
                self.labelled.setdefault(key, {}).setdefault(self.labels[number], number)

    @cached_property
    def normals(self) -> list[Parts]:
        return [tuple(map(normal, text)) for text in self.texts]


def find_copies(splits: Splits, fields: Sequence[Field]) -> Iterator[Finding]:
    """All findings about copies."""
    rows_of_all = [row for rows in splits.values() for row in rows]
    inputs = [
        field for field in input_fields(fields) if any(field.name in r.values for r in rows_of_all)
    ]
    label = label_field(fields)
    parts = [_Split(name, rows, inputs, label) for name, rows in splits.items()]
    for number, split in enumerate(parts):
        yield from _inside(split)
        if split.name in ("train", "dev"):
            yield from _across(split, parts[number + 1 :])


def _inside(split: _Split) -> Iterator[Finding]:
    for number, (key, row) in enumerate(zip(split.keys, split.rows, strict=True)):
        first = split.first.get(key, number)
        if first != number:
            twin = split.rows[first]
            yield found("repeated row", split.name, row, f"as {short(twin, row)}", twin)
    for labels in split.labelled.values():
        if len(labels) > 1:
            (other, first), (own, second) = list(labels.items())[:2]
            yield found(
                "two labels for one text",
                split.name,
                split.rows[second],
                _unlike(own, other, split.rows[first], split.rows[second]),
                split.rows[first],
            )


def _unlike(own: Any, other: Any, twin: Row, row: Row) -> str:
    here, there = contrast(own, other)
    return f"{here} here, {there} in {short(twin, row)}"


def _across(earlier: _Split, later: Sequence[_Split]) -> Iterator[Finding]:
    """Rows of later splits whose text is in an earlier one."""
    rest: list[tuple[_Split, int]] = []
    counts = dict.fromkeys((split.name for split in later), 0)
    for split in later:
        for number, (key, row) in enumerate(zip(split.keys, split.rows, strict=True)):
            if key in earlier.first:
                counts[split.name] += 1
                twin = earlier.rows[earlier.first[key]]
                yield found(
                    f"also in {earlier.name}", split.name, row, f"as {short(twin, row)}", twin
                )
                yield from _contradiction(earlier, split, number)
            elif any(key):
                rest.append((split, number))
    for split, number in rest:
        key = split.keys[number]
        if len(key) == 2 and all(key) and (other := earlier.first.get(key[::-1])) is not None:
            twin = earlier.rows[other]
            where = f"as {short(twin, split.rows[number])}"
            if earlier.name == "train":
                yield found("swapped in train", split.name, split.rows[number], where, twin)
    for split, number, twin, similarity in _near(earlier, rest):
        counts[split.name] += 1
        detail = f"{similarity:.0%} like {short(twin, split.rows[number])}"
        yield found(f"nearly also in {earlier.name}", split.name, split.rows[number], detail, twin)
    for split in later:
        count, rows = counts[split.name], len(split.rows)
        if earlier.name == "train" and count >= MOST * rows:
            share = f"{count:,} of {rows:,} rows ({count / rows:.0%})"
            yield found("most rows also in train", split.name, split.rows[0], share)


def _contradiction(earlier: _Split, split: _Split, number: int) -> Iterator[Finding]:
    """That the same text has another label in an earlier split."""
    key, own = split.keys[number], split.labels[number]
    for label, at in earlier.labelled[key].items():
        if label != own:
            detail = _unlike(own, label, earlier.rows[at], split.rows[number])
            fault = f"also in {earlier.name}, with another label"
            twin = earlier.rows[earlier.first[key]]
            yield found(fault, split.name, split.rows[number], detail, twin)
            return


def _near(
    earlier: _Split, rest: Sequence[tuple[_Split, int]]
) -> Iterator[tuple[_Split, int, Row, float]]:
    """Of the rest those that are nearly in an earlier split: the row there, how similar it is."""
    if not rest:
        return
    known: dict[Parts, int] = {}
    for number, key in enumerate(earlier.normals):
        if any(key):
            known.setdefault(key, number)
    left: list[tuple[_Split, int]] = []
    for split, number in rest:
        key = split.normals[number]
        if key in known:
            yield split, number, earlier.rows[known[key]], 1.0
        elif any(key):
            left.append((split, number))
    olds = list(known.values())
    near = near_copies(list(known), [split.normals[number] for split, number in left])
    for place, (old, similarity) in sorted(near.items()):
        yield *left[place], earlier.rows[olds[old]], similarity
