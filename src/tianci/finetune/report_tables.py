"""The tables of a report, as plain text: the page and the Markdown file both write them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tianci.finetune.report_facts import (
    NONE, SPLITS, chosen_trial, confusion_of, details, digits, interval, label_names, numbers,
    shown, splits, spread, strings, tables, whole, words,
)  # fmt: skip
from tianci.train.history import number, rate, table
from tianci.train.page import duration

LESS_IS_BETTER = {"mae", "rmse", "mse", "loss", "perplexity"}  # a long bar would say the wrong thing
EPOCH_SCORES = 5
CONFUSED = 12


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


def scores_table(record: dict[str, Any]) -> Table | None:
    """Every score with its interval, the metric first."""
    known = splits(record)
    names = list(dict.fromkeys(n for s in known for n in table(table(record[s]).get("scores"))))
    metric = str(record.get("metric", ""))
    names.sort(key=lambda name: name != metric)
    rows: list[list[Cell]] = []
    bars = []
    for name in names:
        found = [spread(record, split, name) for split in known]
        rows.append([name, *(Noted(digits(s.score), interval(s.low, s.high)) for s in found)])
        drawn = []
        for split, (score, low, high) in zip(known, found, strict=True):
            ends = (low, high) if math.isfinite(low + high) else (score, score)
            if name not in LESS_IS_BETTER and 0 <= min(*ends, score) and max(*ends, score) <= 1:
                drawn.append(Bar(*ends, score, split))
        bars.append(drawn)
    if not rows:
        return None
    ranges = any(isinstance(c, Noted) and c.note for row in rows for c in row)
    note = "In small print: the 95% interval, by drawing the rows again and again." if ranges else ""
    strong = 0 if names[0] == metric else -1
    return Table("Scores", ["score", *known], "l" + "r" * len(known), rows, note, strong, bars)


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
    note = f"{len(names)} of them in {whole(sum(finite))} of dev's " + (
        "entities." if title == "Entity types" else "labels."
    )
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


def trials_table(record: dict[str, Any]) -> Table | None:
    """One row per training: rate, seed, what it reached, what it took."""
    trials, best = tables(record.get("trials")), chosen_trial(record)
    if not trials:
        return None
    metric = str(record.get("metric", "score"))
    rows: list[list[Cell]] = []
    for trial in trials:
        lr, seconds = number(trial.get("lr")), number(trial.get("seconds"))
        rows.append([
            rate(lr) if math.isfinite(lr) else NONE,
            shown(trial.get("seed")),
            digits(number(trial.get("score"))),
            shown(trial.get("epochs")),
            whole(trial.get("step")),
            whole(trial.get("steps")),
            whole(trial.get("tokens")),
            duration(seconds) if math.isfinite(seconds) else NONE,
            shown(trial.get("trouble") or ""),
        ])  # fmt: skip
    head = ["rate", "seed", f"dev {metric}", "best epoch", "best step", "steps", "tokens", "time"]
    strong = next(i for i, trial in enumerate(trials) if trial is best)
    shape = Table("Trials", [*head, "trouble"], "rrrrrrrrl", rows, spread_sentence(record), strong)
    return shape if any(row[-1] for row in rows) else _without_last(shape)


def _without_last(given: Table) -> Table:
    return Table(given.title, given.head[:-1], given.align[:-1], [row[:-1] for row in given.rows],
                 given.note, given.strong)  # fmt: skip


def spread_sentence(record: dict[str, Any]) -> str:
    """Mean and spread over seeds, or nothing."""
    found = {key: number(one) for key, one in table(record.get("spread")).items()}
    if not math.isfinite(found.get("mean", math.nan)):
        return ""
    said = f"{whole(found.get('count'))} seeds: mean {digits(found['mean'])}"
    if math.isfinite(found.get("sd", math.nan)):
        said += f", standard deviation {digits(found['sd'])}"
    reach = interval(found.get("low", math.nan), found.get("high", math.nan), 4)
    return f"{said}, {reach}." if reach else f"{said}."


def epochs_table(record: dict[str, Any]) -> Table | None:
    """What dev said after each epoch of the chosen trial."""
    trial = chosen_trial(record)
    past = tables(trial.get("history"))
    if not past:
        return None
    metric = str(record.get("metric", ""))
    every = dict.fromkeys(name for one in past for name in table(one.get("scores")))
    names = sorted(every, key=lambda name: name != metric)[:EPOCH_SCORES]
    made = dict.fromkeys(name for one in past for name in table(one.get("decision")))
    made = {name: None for name in made
            if any(math.isfinite(number(table(one.get("decision")).get(name))) for one in past)}
    rows: list[list[Cell]] = []
    for one in past:
        scores, decision = table(one.get("scores")), table(one.get("decision"))
        cells = [digits(number(scores.get(name))) for name in names]
        cells += [digits(number(decision.get(name)), 2) for name in made]
        rows.append([shown(one.get("epoch")), whole(one.get("step")), *cells])
    strong = next((i for i, one in enumerate(past) if one.get("step") == trial.get("step")), -1)
    head = ["epoch", "step", *names, *made]
    return Table("Dev after each epoch", head, "r" * len(head), rows, strong=strong)


def compare_table(record: dict[str, Any]) -> Table | None:
    """What each system reaches with so many labels."""
    given = table(record.get("compare"))
    rows = tables(given.get("rows"))
    systems = list(dict.fromkeys(shown(one.get("system")) for one in rows))
    sizes = sorted({number(one.get("labels")) for one in rows} - {math.nan})
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


def check_table(record: dict[str, Any]) -> Table | None:
    """What `tianci check` found in the files."""
    rows: list[list[Cell]] = [
        [
            Noted(words(shown(one.get("fault"))), shown(one.get("severity") or "")),
            whole(one.get("count")),
            shown(one.get("advice")),
            "; ".join(strings(one.get("places"))),
        ]
        for one in tables(record.get("check"))
    ]
    head = ["fault", "count", "what to do", "places"]
    return Table("Faults in the data", head, "lrll", rows) if rows else None


def decision_table(record: dict[str, Any]) -> Table | None:
    """What was chosen on dev: threshold, temperature, rate, seed."""
    made = {**table(record.get("decision")), **table(record.get("chosen"))}
    rows = [[words(str(name)), _setting(value)] for name, value in made.items()]
    return Table("Chosen on dev", ["what", "value"], "ll", rows) if rows else None


def data_table(record: dict[str, Any]) -> Table | None:
    """Which files, how many rows."""
    counts, files = table(record.get("rows")), table(record.get("files"))
    names = list(dict.fromkeys([*(n for n in ("train", *SPLITS) if n in counts), *counts, *files]))
    rows = [[str(n), whole(counts.get(n)), shown(files.get(n) or NONE)]
            for n in names if counts.get(n) or files.get(n)]  # fmt: skip
    return Table("Data", ["part", "rows", "file"], "lrl", rows) if rows else None


def settings_table(record: dict[str, Any]) -> Table | None:
    rows = [[str(k), _setting(v)] for k, v in table(record.get("settings")).items()]
    return Table("Settings", ["setting", "value"], "ll", rows) if rows else None


def _setting(value: Any) -> str:
    return "not set" if value is None or value in ("", [], ()) else shown(value)
