"""Tables of how a model came about: trials, epochs, faults of the data, files, settings."""

from __future__ import annotations

import math
from typing import Any

from tianci.train.history import number, rate, table
from tianci.train.page import duration
from tianci.tune.report_facts import (
    NONE,
    SPLITS,
    chosen_trial,
    digits,
    interval,
    metric_of,
    shown,
    strings,
    tables,
    whole,
    words,
)
from tianci.tune.report_table import Cell, Noted, Table

EPOCH_SCORES = 5


def trials_table(record: dict[str, Any]) -> Table | None:
    """One row per training: rate, seed, what it reached, what it took."""
    trials, best = tables(record.get("trials")), chosen_trial(record)
    if not trials:
        return None
    metric = metric_of(record) or "score"
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
    metric = metric_of(record)
    every = dict.fromkeys(name for one in past for name in table(one.get("scores")))
    names = sorted(every, key=lambda name: name != metric)[:EPOCH_SCORES]
    made = dict.fromkeys(name for one in past for name in table(one.get("decision")))
    made = {
        name: None
        for name in made
        if any(math.isfinite(number(table(one.get("decision")).get(name))) for one in past)
    }
    rows: list[list[Cell]] = []
    for one in past:
        scores, decision = table(one.get("scores")), table(one.get("decision"))
        cells = [digits(number(scores.get(name))) for name in names]
        cells += [digits(number(decision.get(name)), 2) for name in made]
        rows.append([shown(one.get("epoch")), whole(one.get("step")), *cells])
    strong = next((i for i, one in enumerate(past) if one.get("step") == trial.get("step")), -1)
    head = ["epoch", "step", *names, *made]
    return Table("Dev after each epoch", head, "r" * len(head), rows, strong=strong)


def check_table(record: dict[str, Any]) -> Table | None:
    """What `tianci check` found in the files."""
    rows: list[list[Cell]] = [
        [
            Noted(words(shown(one.get("fault"))), _said(one.get("split"), one.get("severity"))),
            whole(one.get("count")),
            shown(one.get("advice")),
            "; ".join(strings(one.get("places"))),
        ]
        for one in tables(record.get("check"))
    ]
    head = ["fault", "count", "what to do", "places"]
    return Table("Faults in the data", head, "lrll", rows) if rows else None


def _said(*values: Any) -> str:
    return ", ".join(shown(one) for one in values if one)


def decision_table(record: dict[str, Any]) -> Table | None:
    """What was chosen on dev: threshold, temperature, rate, seed."""
    made = {**table(record.get("decision")), **table(record.get("chosen"))}
    rows = [[words(str(name)), _setting(value)] for name, value in made.items()]
    return Table("Chosen on dev", ["what", "value"], "ll", rows) if rows else None


def data_table(record: dict[str, Any]) -> Table | None:
    """Which files, how many rows."""
    counts, files = table(record.get("rows")), table(record.get("files"))
    names = list(dict.fromkeys([*(n for n in ("train", *SPLITS) if n in counts), *counts, *files]))
    # without a file for dev, a part of the training rows is it
    instead = {"dev": "held back from train"} if files.get("dev") == "" else {}
    rows = [[str(n), whole(counts.get(n)), shown(files.get(n) or instead.get(n))]
            for n in names if counts.get(n) or files.get(n)]  # fmt: skip
    return Table("Data", ["part", "rows", "file"], "lrl", rows) if rows else None


def settings_table(record: dict[str, Any]) -> Table | None:
    rows = [[str(k), _setting(v)] for k, v in table(record.get("settings")).items()]
    return Table("Settings", ["setting", "value"], "ll", rows) if rows else None


def _setting(value: Any) -> str:
    return "not set" if value is None or value in ("", [], ()) else shown(value)
