"""Texts: empty, damaged, or longer than the model reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from tianci.data.rows import Field, Row
from tianci.evaluate.check.content import ENOUGH, JOINT, Splits, input_fields, label_field, texts
from tianci.evaluate.check.finding import Finding, found
from tianci.goals.tasks.base import Task
from tianci.text.tokenizer import Tokenizer

DAMAGED = "\ufffd"
ENDLESS = 1 << 30  # tokens: nothing is cut
MOST = 0.8  # of the rows: if so many have a text, the others lack it
MANY = 0.5  # of the rows: if so many are cut, it is more than a note


def find_text_faults(splits: Splits, fields: Sequence[Field]) -> Iterator[Finding]:
    """All findings about empty and damaged texts."""
    inputs = input_fields(fields)
    optional = [f for f in fields if not f.required and f.kind in ("text", "texts")]
    for split, rows in splits.items():
        yield from _beside_the_others(split, rows, optional)
        for row in rows:
            read = texts(row, inputs)
            if empty := _empty(row, inputs, read):
                yield found("empty text", split, row, empty)
            for field, text in zip(inputs, read, strict=True):
                if DAMAGED in text:
                    yield found("replacement character", split, row, _damage(field.name, text))


def _beside_the_others(
    split: str, rows: Sequence[Row], optional: Sequence[Field]
) -> Iterator[Finding]:
    """Rows without a text that may be missing, but that most rows of the split have."""
    for field in optional:
        filled = [bool(texts(row, [field])[0].replace(JOINT, "").strip()) for row in rows]
        if not all(filled) and sum(filled) >= MOST * len(rows):
            for row, full in zip(rows, filled, strict=True):
                if not full:
                    yield found("empty beside the others", split, row, field.name)


def _empty(row: Row, inputs: Sequence[Field], read: Sequence[str]) -> str | None:
    """The name of a field with nothing to read in it."""
    blank = [not text.replace(JOINT, "").strip() for text in read]
    if all(blank):
        return inputs[0].name if inputs else None
    for field, nothing in zip(inputs, blank, strict=True):
        if field.required and nothing:
            return field.name
        # a blank among words is a word (of a text cut into characters); an empty choice is none
        if field.kind == "texts" and not all(map(str.strip, row.values.get(field.name, ()))):
            return field.name
    return None


def _damage(name: str, text: str) -> str:
    start = max(0, text.index(DAMAGED) - ENOUGH // 2)
    shown = text[start : start + ENOUGH].replace(JOINT, " ")
    count = text.count(DAMAGED)
    return f'{count} times in {name}: "{shown}"' if count > 1 else f'in {name}: "{shown}"'


def find_long_texts(
    splits: Splits, task: Task, tokenizer: Tokenizer, limit: int
) -> Iterator[Finding]:
    """Rows with more tokens than `limit`; what is read in windows is not cut."""
    if label_field(task.columns(), "answers", "tags"):
        return
    for split, rows in splits.items():
        longest = [0] * len(rows)
        for example in task.examples(rows, tokenizer, ENDLESS, labelled=False):
            length = max(len(part.ids) for part in example.parts)
            longest[example.row] = max(longest[example.row], length)
        many = sum(length > limit for length in longest) >= MANY * len(rows)
        for row, length in zip(rows, longest, strict=True):
            if length > limit:
                detail = f"{length:,} tokens, {limit:,} are read"
                place = found("longer than the model reads", split, row, detail)
                yield dataclasses.replace(place, severity="warning") if many else place
