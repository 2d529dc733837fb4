"""A table of a report as plain text: the page and the Markdown file both write it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Noted(NamedTuple):
    """A cell with something smaller beside it."""

    text: str
    note: str


class Bar(NamedTuple):
    """From low to high on a scale from 0 to 1, with a dot; NaN for no dot."""

    low: float
    high: float
    at: float
    look: str


Cell = str | Noted


@dataclass(frozen=True)
class Table:
    """What one table says; `align` has a letter, l or r, for each column."""

    title: str
    head: Sequence[str]
    align: str
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    strong: int = -1  # the row that matters
    bars: Sequence[Sequence[Bar]] = ()  # drawn beside each row, where a page can
    scale: tuple[str, str] = ("", "")  # what the ends of the bars mean
