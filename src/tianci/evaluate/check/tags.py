"""Tags of words: entities that do not begin with B-, prefixes that nobody knows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from tianci.data.rows import Field, Row
from tianci.data.rows_files import suffix_of
from tianci.evaluate.check.content import Splits, label_field
from tianci.evaluate.check.finding import Finding, found

BEGINS, INSIDE, ALONE = ("B",), ("I", "M", "E", "L"), ("S", "U")  # BIO, BIOES, BILOU, BMES


def find_tag_faults(splits: Splits, fields: Sequence[Field]) -> Iterator[Finding]:
    """All findings about tags; tags without any B- or I- (parts of speech) have no such faults."""
    field = label_field(fields, "tags")
    if field is None:
        return
    names = {tag for rows in splits.values() for row in rows for tag in _tags(row, field)}
    if not any(tag[:2] in ("B-", "I-") for tag in names):
        return
    for split, rows in splits.items():
        for row in rows:
            yield from _row(split, row, _tags(row, field))


def _tags(row: Row, field: Field) -> Sequence[str]:
    tags: Sequence[str] = row.values.get(field.name, ())
    return tags


def _row(split: str, row: Row, tags: Sequence[str]) -> Iterator[Finding]:
    before = "O"
    for number, tag in enumerate(tags):
        prefix, dash, kind = tag.partition("-")
        known = tag == "O" or (dash and kind and prefix in (*BEGINS, *INSIDE, *ALONE))
        if not known:
            yield _at(row, number, "unknown tag prefix", split, f'"{tag}"')
        elif prefix in INSIDE and before not in [f"{p}-{kind}" for p in ("B", "I", "M")]:
            yield _at(row, number, "I- without B-", split, f"{tag} after {before}")
        before = tag


def _at(row: Row, number: int, fault: str, split: str, detail: str) -> Finding:
    """A finding at one word: in CoNLL files it has a line of its own."""
    words = row.values.get("words", ())
    word = f'word {number + 1} "{words[number]}": ' if number < len(words) else ""
    if suffix_of(Path(row.file)) in (".conll", ".bio"):
        row = dataclasses.replace(row, line=row.line + number)
    return found(fault, split, row, word + detail)
