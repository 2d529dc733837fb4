"""Answers and choices: spans that are not where they should be, labels that choose nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tianci.data.rows import Field, Row
from tianci.evaluate.check.content import ENOUGH, Splits, label_field
from tianci.evaluate.check.finding import Finding, found

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def find_answer_faults(splits: Splits, fields: Sequence[Field]) -> Iterator[Finding]:
    """All findings about the answers to questions."""
    field = label_field(fields, "answers")
    if field is None:
        return
    for split, rows in splits.items():
        for row in rows:
            answers: list[dict[str, Any]] = row.values.get(field.name, [])
            impossible = row.values.get("impossible", not answers)
            if impossible and answers:
                yield found("answer and no-answer", split, row, "impossible, but has an answer")
            elif not impossible and not answers:
                yield found("answer and no-answer", split, row, "not impossible, but no answer")
            for answer in answers:
                yield from _answer(split, row, answer["text"], answer["answer_start"])


def _answer(split: str, row: Row, text: str, start: int) -> Iterator[Finding]:
    context: str = row.values["context"]
    shown = f'"{text[:ENOUGH]}"'
    if not text.strip():
        yield found("answer not in the passage", split, row, "the answer is empty")
    elif text not in context:
        yield found("answer not in the passage", split, row, shown)
    elif start < 0 or context[start : start + len(text)] != text:
        detail = f"{shown} is not at {start:,} but at {context.index(text):,}"
        if start < 0 or start + len(text) > len(context):
            detail += f"; the passage has {len(context):,} characters"
        yield found("answer not at its place", split, row, detail)


def find_choice_faults(splits: Splits, fields: Sequence[Field]) -> Iterator[Finding]:
    """All findings about multiple choice: a list of texts and the number of the right one."""
    choices, label = label_field(fields, "texts"), label_field(fields, "label")
    if choices is None or label is None:
        return
    for split, rows in splits.items():
        for row in rows:
            count = len(row.values.get(choices.name, ()))
            if count < 2:
                yield found("fewer than two choices", split, row, f"{count} in {choices.name}")
            yield from _same_choices(split, row, row.values.get(choices.name, ()))
            said = row.values.get(label.name)
            if said is not None and said.upper() not in {*LETTERS[:count], *map(str, range(count))}:
                detail = f'"{said}" of {count} choices (0 to {count - 1})'
                yield found("label is no choice", split, row, detail)


def _same_choices(split: str, row: Row, choices: Sequence[str]) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for number, choice in enumerate(choices):
        key = " ".join(choice.split())
        if key and first.setdefault(key, number) != number:
            detail = f'{first[key]} and {number} are both "{choice[:ENOUGH]}"'
            yield found("same choice twice", split, row, detail)
            return
