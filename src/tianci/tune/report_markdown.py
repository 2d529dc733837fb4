"""The report as Markdown: the same facts as the page, in tables."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from tianci import __version__
from tianci.tune import report_scores as scores
from tianci.tune import report_trials as trials
from tianci.tune.report_errors import errors_table
from tianci.tune.report_facts import (
    calibration_sentence,
    chosen_trial,
    confusion_of,
    digits,
    reliability_of,
    shown,
    splits,
    strings,
    whole,
)
from tianci.tune.report_table import Cell, Noted, Table
from tianci.tune.report_threshold import sweep_of

LONG = 300  # characters of a cell
FITS = 20  # labels of a matrix that can still be read

# what Markdown would take for markup: table borders, emphasis, code, links, HTML
_MARKUP = re.compile(r"([\\|`*\[\]~$]|(?<!\w)_|_(?!\w)|^[#>+=-](?=\s|$|[=-]))")


def markdown(name: str, record: dict[str, Any]) -> str:
    """The whole file."""
    parts = [
        f"# {plain(name)}",
        plain(f"Fine-tuning: {shown(record.get('task'))}, from {shown(record.get('model'))}."),
        plain(shown(record.get("summary") or "")),
        _notes(record),
        _table(trials.check_table(record)),
        _table(scores.scores_table(record)),
        _table(scores.compare_table(record)),
        _thresholds(record),
        *(_confusion(record, split) for split in splits(record)),
        _table(scores.labels_table(record)),
        _calibration(record),
        _table(errors_table(record)),
        _table(trials.trials_table(record)),
        _table(trials.epochs_table(record)),
        _table(trials.data_table(record)),
        _table(trials.decision_table(record)),
        _table(trials.settings_table(record)),
        _totals(record),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def plain(text: str) -> str:
    """Text in one line that means nothing to Markdown."""
    one_line = " ".join(text.split())
    if len(one_line) > LONG:
        one_line = one_line[:LONG].rstrip() + " …"
    safe = _MARKUP.sub(r"\\\1", one_line)
    return re.sub(r"&(?=#?\w+;)", "&amp;", safe).replace("<", "&lt;")


def _notes(record: dict[str, Any]) -> str:
    trouble = chosen_trial(record).get("trouble")
    said = [f"- trouble: {plain(shown(trouble))}"] if trouble else []
    return "\n".join([*said, *(f"- {plain(note)}" for note in strings(record.get("notes")))])


def _table(table: Table | None) -> str:
    if table is None:
        return ""
    head = [_line([plain(name) for name in table.head])]
    head.append(_line(["---:" if letter == "r" else "---" for letter in table.align]))
    rows = [_line([_cell(cell, n == table.strong) for cell in row])
            for n, row in enumerate(table.rows)]  # fmt: skip
    parts = [f"## {plain(table.title)}", plain(table.note), "\n".join(head + rows)]
    return "\n\n".join(part for part in parts if part)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell, strong: bool) -> str:
    text, note = cell if isinstance(cell, Noted) else (cell, "")
    shown_text = f"**{plain(text)}**" if strong and text.strip() else plain(text)
    return f"{shown_text} ({plain(note)})" if note else shown_text


def _confusion(record: dict[str, Any], split: str) -> str:
    matrix = confusion_of(record, split)
    parts = []
    if matrix is not None and len(matrix) <= FITS:
        parts.append(_table(scores.confusion_table(record, split)))
    parts.append(_table(scores.confused_table(record, split)))
    return "\n\n".join(part for part in parts if part)


def _thresholds(record: dict[str, Any]) -> str:
    """Every tenth threshold and the model's own: the curves as numbers."""
    sweep = sweep_of(record)
    if sweep is None:
        return ""
    tenths = [math.isclose(10 * stop, round(10 * stop), abs_tol=1e-9) for stop in sweep.stops]
    kept = [n for n, tenth in enumerate(tenths) if tenth or n == sweep.at]
    rows = []
    for stop in kept:
        found = sweep.reading(stop)
        values = (found.precision, found.recall, found.f1, found.accuracy, found.fall_out)
        rows.append([f"{found.threshold:g}", *(digits(value, 3) for value in values)])
    head = ["threshold", "precision", "recall", "F1", "accuracy", "false positive rate"]
    note = f'On dev: a row counts as "{sweep.names[1]}" from this probability on.'
    strong = kept.index(sweep.at)
    return _table(Table("Threshold", head, "r" * len(head), rows, note, strong))


def _calibration(record: dict[str, Any]) -> str:
    rows = [
        [digits(sure, 3), digits(right, 3), whole(count)]
        for sure, right, count in reliability_of(record)
    ]
    head, said = ["how sure", "how often right", "rows"], calibration_sentence(record)
    return _table(Table("Calibration", head, "rrr", rows, said)) if rows or said else ""


def _totals(record: dict[str, Any]) -> str:
    facts = {
        "parameters": record.get("parameters"), "learned": record.get("learned"),
        "seconds": record.get("seconds"), "tokens per second": record.get("tokens_per_second"),
    }  # fmt: skip
    rows = [[name, whole(value)] for name, value in facts.items() if value is not None]
    made = f"tianci {__version__} made this file."
    return "\n\n".join(
        part for part in (_table(Table("Cost", ["what", "how much"], "lr", rows)), made) if part
    )
