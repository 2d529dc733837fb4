"""Are labelled files fit to learn from and to measure with? Alone, and before each fine-tuning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tianci.evaluate.check.answers import find_answer_faults, find_choice_faults
from tianci.evaluate.check.content import Splits
from tianci.evaluate.check.copies import find_copies
from tianci.evaluate.check.finding import Finding, Group, grouped, ranked, stops, summarise
from tianci.evaluate.check.labels import find_label_faults
from tianci.evaluate.check.splits import Name, Source, by_split, read_splits
from tianci.evaluate.check.tags import find_tag_faults
from tianci.evaluate.check.texts import find_long_texts, find_text_faults
from tianci.goals.tasks import make_task
from tianci.goals.tasks.base import Task
from tianci.text.tokenizer import Tokenizer

__all__ = [
    "Finding",
    "Group",
    "Report",
    "check",
    "check_files",
    "examine",
    "grouped",
    "stops",
    "summarise",
]


@dataclass(frozen=True)
class Report:
    """The rows that were read and what was found, the most serious first."""

    splits: Splits
    findings: list[Finding]


def check(
    sources: Mapping[str, Source],
    task: str | Task,
    columns: Mapping[str, str] | None = None,
    tokenizer: Tokenizer | None = None,
    limit: int | None = None,
) -> list[Finding]:
    """One finding per place: check({"train": "train.jsonl", "dev": rows}, "classify").

    With a tokenizer and the number of tokens that a model reads, also texts that will be cut.
    """
    return examine(sources, task, columns, tokenizer, limit).findings


def examine(
    sources: Mapping[str, Source],
    task: str | Task,
    columns: Mapping[str, str] | None = None,
    tokenizer: Tokenizer | None = None,
    limit: int | None = None,
) -> Report:
    """The same with the rows that were read."""
    made = make_task(task) if isinstance(task, str) else task
    fields = made.columns()
    splits, findings = read_splits(sources, fields, columns)
    read = {name: rows for name, rows in splits.items() if rows}
    findings += find_label_faults(read, fields)
    findings += find_copies(read, fields)
    findings += find_text_faults(read, fields)
    findings += find_answer_faults(read, fields)
    findings += find_choice_faults(read, fields)
    findings += find_tag_faults(read, fields)
    if tokenizer and limit:
        findings += find_long_texts(read, made, tokenizer, limit)
    return Report(splits, ranked(findings))


def check_files(
    files: Sequence[Name] = (),
    *,
    task: str,
    train: Sequence[Name] = (),
    dev: Sequence[Name] = (),
    test: Sequence[Name] = (),
    columns: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
    model: str = "",
    length: int = 0,
) -> Report:
    """As `tianci check` does it: files by their names or by split; with a model also its length."""
    made = make_task(task, settings)
    sources = by_split(files, {"train": train, "dev": dev, "test": test})
    if not model:
        return examine(sources, made, columns)
    from tianci import checkpoint
    from tianci.evaluate.tasks import reading_limit, tokenizer_of

    known = checkpoint.read(model)
    return examine(sources, made, columns, tokenizer_of(known), reading_limit(known, made, length))
