"""Texts: empty, damaged, or longer than the model reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from tianci.data.rows import Field, Row
from tianci.evaluate.check.content import ENOUGH, Splits, label_field
from tianci.evaluate.check.finding import Finding, found
from tianci.goals.tasks.base import Task
from tianci.text.tokenizer import Tokenizer

DAMAGED = "\ufffd"
ENDLESS = 1 << 30  # tokens: nothing is cut
MANY = 0.5  # of the rows: if so many are cut, it is more than a note


def find_text_faults(splits: Splits, fields: Sequence[Field]) -> Iterator[Finding]:
    """All findings about empty and damaged texts."""
    for split, rows in splits.items():
        for row in rows:
            for field in fields:
                value = row.values.get(field.name)
                if field.kind in ("text", "texts", "words") and value is not None:
                    yield from _field(
                        split, row, field, [value] if isinstance(value, str) else value
                    )


def _field(split: str, row: Row, field: Field, values: Sequence[str]) -> Iterator[Finding]:
    blank = [value for value in values if not value.strip()]
    # a blank among words is a word (of a text cut into characters); an empty choice is none
    if (field.required and not values) or (blank and (field.required and field.kind != "words")):
        yield found("empty text", split, row, field.name)
    count = sum(value.count(DAMAGED) for value in values)
    if count:
        at = next(value for value in values if DAMAGED in value)
        start = max(0, at.index(DAMAGED) - ENOUGH // 2)
        times = f"{count} times in {field.name}" if count > 1 else f"in {field.name}"
        yield found("replacement character", split, row, f'{times}: "{at[start : start + ENOUGH]}"')


def find_long_texts(
    splits: Splits, task: Task, tokenizer: Tokenizer, limit: int
) -> Iterator[Finding]:
    """Rows with more tokens than `limit`; passages that are read in windows are not cut."""
    if label_field(task.columns(), "answers"):
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
