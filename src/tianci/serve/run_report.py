"""The report of a fine-tuning run as data: the same tables and counts that report.html is made
of."""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct

from tianci.serve.run_log import plain
from tianci.tune import report_scores as scores
from tianci.tune import report_trials as trials
from tianci.tune.report_errors import errors_table
from tianci.tune.report_facts import (
    calibration_sentence,
    chosen_trial,
    confusion_of,
    label_names,
    reliability_of,
    shown,
    splits,
    strings,
)
from tianci.tune.report_table import Noted, Table
from tianci.tune.report_threshold import sweep_of

MATRIX = 40  # labels of a matrix that a screen can show


class ReportBar(Struct):
    low: float
    high: float
    at: float | None
    look: str


class ReportTable(Struct):
    """Cells are texts, each with a smaller note; `strong` is the row that matters, or -1."""

    key: str
    title: str
    head: list[str]
    align: str
    rows: list[list[tuple[str, str]]]
    note: str
    strong: int
    bars: list[list[ReportBar]]
    scale: tuple[str, str]


class ThresholdSweep(Struct, rename={"true_positives": "true", "false_positives": "false"}):
    """True and false positives on dev at each threshold; `at` is where the model stands."""

    stops: list[float]
    true_positives: list[int]
    false_positives: list[int]
    positives: int
    negatives: int
    at: int
    names: tuple[str, str]


class Confusion(Struct):
    """How often each label (row) was taken for each (column)."""

    split: str
    labels: list[str]
    counts: list[list[int]]


class Report(Struct):
    name: str
    task: str
    model: str
    metric: str
    summary: str
    notes: list[str]
    sweep: ThresholdSweep | None
    confusion: list[Confusion]
    reliability: list[tuple[float, float, float]]
    calibration: str
    tables: list[ReportTable]


def report_of(name: str, record: dict[str, Any]) -> Report:
    """The report of what scores.json holds."""
    record = plain(record)
    trouble = chosen_trial(record).get("trouble")
    made = {
        "scores": scores.scores_table(record),
        "compare": scores.compare_table(record),
        **{f"confused_{split}": scores.confused_table(record, split) for split in splits(record)},
        "labels": scores.labels_table(record),
        "errors": errors_table(record),
        "check": trials.check_table(record),
        "trials": trials.trials_table(record),
        "epochs": trials.epochs_table(record),
        "data": trials.data_table(record),
        "decision": trials.decision_table(record),
        "settings": trials.settings_table(record),
    }
    return Report(
        name=name,
        task=shown(record.get("task")),
        model=shown(record.get("model")),
        metric=shown(record.get("metric") or ""),
        summary=shown(record.get("summary") or ""),
        notes=[*([shown(trouble)] if trouble else []), *strings(record.get("notes"))],
        sweep=_sweep(record),
        confusion=[found for split in splits(record) if (found := _confusion(record, split))],
        reliability=reliability_of(record),
        calibration=calibration_sentence(record),
        tables=[_table(key, one) for key, one in made.items() if one is not None],
    )


def _sweep(record: dict[str, Any]) -> ThresholdSweep | None:
    found = sweep_of(record)
    if found is None:
        return None
    return ThresholdSweep(
        found.stops,
        found.true.tolist(),
        found.false.tolist(),
        found.positives,
        found.negatives,
        found.at,
        found.names,
    )


def _confusion(record: dict[str, Any], split: str) -> Confusion | None:
    matrix = confusion_of(record, split)
    if matrix is None or len(matrix) > MATRIX:
        return None
    return Confusion(split, label_names(record, len(matrix)), matrix.tolist())


def _table(key: str, given: Table) -> ReportTable:
    return ReportTable(
        key=key,
        title=given.title,
        head=list(given.head),
        align=given.align,
        rows=[[_cell(cell) for cell in row] for row in given.rows],
        note=given.note,
        strong=given.strong,
        bars=[
            [ReportBar(b.low, b.high, b.at if math.isfinite(b.at) else None, b.look) for b in row]
            for row in given.bars
        ],
        scale=given.scale,
    )


def _cell(cell: str | Noted) -> tuple[str, str]:
    return (cell.text, cell.note) if isinstance(cell, Noted) else (cell, "")
