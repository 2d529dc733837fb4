"""Tables of how good a model is: scores, labels, confusions, comparison."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tianci.train.history import number, table
from tianci.tune.report_facts import (
    Spread,
    confusion_of,
    details,
    digits,
    interval,
    label_names,
    metric_of,
    shown,
    splits,
    spread,
    tables,
    whole,
    words,
)
from tianci.tune.report_table import Bar, Cell, Noted, Table

LESS_IS_BETTER = {"mae", "rmse", "mse", "loss", "perplexity"}  # a long bar would mislead
CONFUSED = 12


def scores_table(record: dict[str, Any]) -> Table | None:
    """Every score with its interval, the metric first."""
    known = splits(record)
    names = list(dict.fromkeys(n for s in known for n in table(table(record[s]).get("scores"))))
    metric = metric_of(record)
    names.sort(key=lambda name: name != metric)
    if not names:
        return None
    found = {name: [spread(record, split, name) for split in known] for name in names}
    rows: list[list[Cell]] = [
        [name, *(Noted(digits(s.score), interval(s.low, s.high)) for s in found[name])]
        for name in names
    ]
    ranges = any(math.isfinite(s.low + s.high) for each in found.values() for s in each)
    note = "Each with its 95% interval, by bootstrap over the rows." if ranges else ""
    strong = 0 if names[0] == metric else -1
    shapes, low = _score_bars(known, found)
    return Table(
        "Scores",
        ["score", *known],
        "l" + "r" * len(known),
        rows,
        note,
        strong,
        shapes,
        (f"{low:g}", "1"),
    )


def _score_bars(known: list[str], found: dict[str, list[Spread]]) -> tuple[list[list[Bar]], float]:
    """Intervals and scores on one scale, and where that scale begins."""
    usable: dict[str, list[tuple[str, Spread]]] = {}
    for name, each in found.items():
        whole_ones = [
            (split, s if math.isfinite(s.low + s.high) else Spread(s.score, s.score, s.score))
            for split, s in zip(known, each, strict=True)
        ]
        usable[name] = [
            (split, s)
            for split, s in whole_ones
            if name not in LESS_IS_BETTER and min(s) >= 0 and max(s) <= 1
        ]
    lowest = min((min(s) for each in usable.values() for _, s in each), default=0.0)
    start = min(0.9, math.floor(10 * lowest) / 10)

    def at(value: float) -> float:
        return (value - start) / (1 - start)

    bars = [
        [Bar(at(s.low), at(s.high), at(s.score), split) for split, s in each]
        for each in usable.values()
    ]
    return bars, start


def labels_table(record: dict[str, Any]) -> Table | None:
    """Each label, or each type of entity: rows, precision, recall, F1."""
    found = details(record)
    counts = {str(k): number(v) for k, v in table(found.get("label_counts")).items()}
    types = {str(k): table(v) for k, v in table(found.get("types")).items()}
    types |= {shown(one.get("name")): one for one in tables(found.get("per_label"))}
    types = types or _from_confusion(record)
    names = list(dict.fromkeys([*counts, *types]))
    if not names:
        return None
    support = [counts.get(n, number(types.get(n, {}).get("support"))) for n in names]
    columns = [c for c in ("precision", "recall", "f1") if any(c in one for one in types.values())]
    rows: list[list[Cell]] = [
        [name, whole(size), *(digits(number(types.get(name, {}).get(c)), 3) for c in columns)]
        for name, size in zip(names, support, strict=True)
    ]
    finite = [size for size in support if math.isfinite(size)]
    most = max([*finite, 1.0])
    bars = [[Bar(0.0, size / most, math.nan, "count")] if math.isfinite(size) else []
            for size in support]  # fmt: skip
    title = "Entity types" if "types" in found else "Labels"
    note = f"As they stand in dev: {whole(sum(finite))} in all."
    head = ["type" if "types" in found else "label", "count", *map(_heading, columns)]
    return Table(title, head, "lr" + "r" * len(columns), rows, note, bars=bars)


def _heading(name: str) -> str:
    return "F1" if name == "f1" else words(name)


def _from_confusion(record: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Precision, recall and F1 of each label, where the record only has the matrix."""
    matrix = confusion_of(record, "dev")
    if matrix is None:
        return {}
    right, there, taken = np.diag(matrix), matrix.sum(1), matrix.sum(0)
    return {
        name: {
            "precision": float(r / max(1, t)), "recall": float(r / max(1, g)),
            "f1": float(2 * r / max(1, t + g)), "support": float(g),
        }
        for name, r, g, t in zip(label_names(record, len(matrix)), right, there, taken, strict=True)
    }  # fmt: skip


def confusion_table(record: dict[str, Any], split: str) -> Table | None:
    """The confusion matrix in words and numbers."""
    matrix = confusion_of(record, split)
    if matrix is None:
        return None
    names = label_names(record, len(matrix))
    rows: list[list[Cell]] = [
        [name, *map(whole, row)] for name, row in zip(names, matrix.tolist(), strict=True)
    ]
    note = "Rows: what is right; columns: what the model said."
    head = ["right \\ said", *names]
    return Table(f"Confusion matrix, {split}", head, "l" + "r" * len(names), rows, note)


def confused_table(record: dict[str, Any], split: str) -> Table | None:
    """Which labels are most often taken for which."""
    matrix = confusion_of(record, split)
    if matrix is None or len(matrix) < 3:
        return None
    names = label_names(record, len(matrix))
    wrong = matrix - np.diag(np.diag(matrix))
    order = np.argsort(-wrong, axis=None, kind="stable")[:CONFUSED].tolist()
    pairs = [divmod(place, len(matrix)) for place in order]
    rows: list[list[Cell]] = [
        [names[a], names[b], whole(wrong[a, b].item()), f"{wrong[a, b] / matrix[a].sum():.0%}"]
        for a, b in pairs
        if wrong[a, b]
    ]
    head = ["right", "said", "rows", "of the label"]
    return Table(f"Most often confused, {split}", head, "llrr", rows) if rows else None


def compare_table(record: dict[str, Any]) -> Table | None:
    """What each system reaches with so many labels."""
    given = table(record.get("compare"))
    rows = tables(given.get("rows"))
    systems = list(dict.fromkeys(shown(one.get("system")) for one in rows))
    sizes = sorted({n for one in rows if math.isfinite(n := number(one.get("labels")))})
    cells = {(number(one.get("labels")), shown(one.get("system"))): one for one in rows}
    if not systems or not sizes:
        return None

    def cell(size: float, system: str) -> Cell:
        one = cells.get((size, system), {})
        low, high = number(one.get("low")), number(one.get("high"))
        return Noted(digits(number(one.get("score")), 3), interval(low, high))

    body = [[whole(size), *(cell(size, system) for system in systems)] for size in sizes]
    note = shown(given.get("sentence") or "")
    return Table("Was pre-training worth it?", ["labels", *systems], "r" * (len(systems) + 1),
                 body, note)  # fmt: skip
