"""Rows that come again: inside a split and across splits, with the same label and with another.

Two texts are the same when they differ in nothing but white space; they are nearly the same when
case, width and punctuation are all that differs, or when nine tenths of their shingles agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tianci.data.rows import Field, Row
from tianci.evaluate.check.content import Splits, judgement, label_field, named, texts
from tianci.evaluate.check.finding import Finding, found
from tianci.evaluate.check.near import Parts, near_copies, normal

MOST = 0.5  # of the rows of a split: so many copies leave nothing to measure


class _Split:
    """The rows of a split by their text."""

    def __init__(self, name: str, rows: Sequence[Row], fields: Sequence[Field]):
        self.name, self.rows = name, rows
        self.texts = [texts(row, fields) for row in rows]
        self.keys = [tuple("".join(part.split()) for part in text) for text in self.texts]
        label = label_field(fields)
        if label_field(fields, "texts") is not None and label and label.kind == "label":
            label = (
                None  # the number of a choice says nothing when the choices come in another order
            )
        self.labels = [judgement(row, label) for row in rows]
        self.first: dict[Parts, int] = {}
        self.labelled: dict[Parts, dict[Any, int]] = {}  # text -> label -> first row with it
        for number, key in enumerate(self.keys):
            if any(key):
                self.first.setdefault(key, number)
                self.labelled.setdefault(key, {}).setdefault(self.labels[number], number)

    def normals(self) -> list[Parts]:
        return [tuple(map(normal, text)) for text in self.texts]


def find_copies(splits: Splits, fields: Sequence[Field]) -> Iterator[Finding]:
    """All findings about copies."""
    parts = [_Split(name, rows, fields) for name, rows in splits.items()]
    for number, split in enumerate(parts):
        yield from _inside(split)
        for earlier in parts[:number]:
            if earlier.name in ("train", "dev"):
                yield from _across(earlier, split)


def _inside(split: _Split) -> Iterator[Finding]:
    for number, (key, row) in enumerate(zip(split.keys, split.rows, strict=True)):
        first = split.first.get(key, number)
        if first != number:
            yield found("repeated row", split.name, row, "", split.rows[first])
    for labels in split.labelled.values():
        if len(labels) > 1:
            first, second = list(labels.values())[:2]
            said = [f"{named(label)} in line {split.rows[at].line}" for label, at in labels.items()]
            yield found(
                "two labels for one text",
                split.name,
                split.rows[second],
                ", ".join(said),
                split.rows[first],
            )


def _across(earlier: _Split, split: _Split) -> Iterator[Finding]:
    """Rows of a split whose text is in an earlier one."""
    rest: list[int] = []
    count = 0
    for number, (key, row) in enumerate(zip(split.keys, split.rows, strict=True)):
        if key not in earlier.first:
            if any(key):
                rest.append(number)
            continue
        count += 1
        twin = earlier.rows[earlier.first[key]]
        yield found(f"also in {earlier.name}", split.name, row, twin.place, twin)
        own = split.labels[number]
        for label, at in earlier.labelled[key].items():
            if label != own:
                detail = f"{named(own)} here, {named(label)} in {earlier.rows[at].place}"
                fault = f"also in {earlier.name}, with another label"
                yield found(fault, split.name, row, detail, twin)
                break
    for number, twin, similarity in _near(earlier, split, rest):
        count += 1
        detail = f"{similarity:.0%} alike: {twin.place}"
        yield found(f"nearly also in {earlier.name}", split.name, split.rows[number], detail, twin)
    if earlier.name == "train" and count >= MOST * len(split.rows) > 0:
        share = f"{count:,} of {len(split.rows):,} rows ({count / len(split.rows):.0%})"
        yield found("most rows also in train", split.name, split.rows[0], share)


def _near(earlier: _Split, split: _Split, rest: Sequence[int]) -> Iterator[tuple[int, Row, float]]:
    """Number of a row of `rest`, the row that it is nearly a copy of, how similar they are."""
    if not rest:
        return
    known: dict[Parts, int] = {}
    for number, key in enumerate(earlier.normals()):
        if any(key):
            known.setdefault(key, number)
    normals = split.normals()
    left: list[int] = []
    for number in rest:
        if normals[number] in known:
            yield number, earlier.rows[known[normals[number]]], 1.0
        elif any(normals[number]):
            left.append(number)
    olds = list(known.values())
    near = near_copies(list(known), [normals[number] for number in left])
    for place, (old, similarity) in near.items():
        yield left[place], earlier.rows[olds[old]], similarity
