"""The worst errors as a table: the columns are whatever keys the task gives."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from tianci.train.history import number
from tianci.tune.report_facts import NONE, details, digits, shown, tables, words
from tianci.tune.report_table import Table

FIRST = ("text", "pair", "question", "context")
LAST = ("label", "expected", "predicted", "score", "place")
ANSWERS = ("label", "expected", "predicted")
MOST = 50


def errors_table(record: dict[str, Any]) -> Table | None:
    """Errors on dev, in the record's order; test errors are nobody's to look at."""
    errors = tables(details(record).get("errors"))[:MOST]
    if not errors:
        return None
    keys = list(dict.fromkeys(key for error in errors for key in error))
    others = [key for key in keys if key not in (*FIRST, *LAST)]
    columns = [k for k in FIRST if k in keys] + others + [k for k in LAST if k in keys]
    file, places = _places([shown(error.get("place", "")) for error in errors])
    rows = [
        [place if key == "place" else _text(key, error.get(key, "")) for key in columns]
        for error, place in zip(errors, places, strict=True)
    ]
    align = "".join("r" if key == "score" else "l" for key in columns)
    scores = [number(error.get("score")) for error in errors]
    falling = len(scores) > 1 and all(a >= b for a, b in pairwise(scores))
    said = "Those that the model was surest of come first." if falling else ""
    note = " ".join(part for part in (said, f"All from {file}." if file else "") if part)
    return Table("Worst errors on dev", [_title(key) for key in columns], align, rows, note)


def _text(key: str, value: Any) -> str:
    score = number(value)
    if key == "score" and math.isfinite(score):
        return digits(score, 3)
    # an answer that is nothing is an answer too
    return NONE if value == "" and key in ANSWERS else shown(value)


def _title(key: str) -> str:
    return {"label": "right", "expected": "right", "predicted": "said"}.get(key, words(str(key)))


def _places(places: list[str]) -> tuple[str, list[str]]:
    """The file that all share, and what then is left to say of each."""
    files = {place.rpartition(", ")[0] for place in places}
    if len(files) == 1 and (file := files.pop()):
        return file, [place.rpartition(", ")[2] for place in places]
    return "", places
