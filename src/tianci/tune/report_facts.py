"""The record of a run, read with care: any part may be missing, odd or not finite."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tianci.train.history import number, table

SPLITS = ("dev", "test")
NONE = "–"


class Spread(NamedTuple):
    """A score with the borders of its interval; NaN where there is none."""

    score: float
    low: float
    high: float


def tables(value: Any) -> list[dict[str, Any]]:
    """The tables in a list; whatever else is in it is left out."""
    return (
        [one for one in value if isinstance(one, dict)] if isinstance(value, list | tuple) else []
    )


def numbers(value: Any) -> NDArray[np.float64]:
    """A list as floats, NaN for anything that is not a number."""
    given = value if isinstance(value, list | tuple) else []
    return np.array([number(one) for one in given], np.float64)


def strings(value: Any) -> list[str]:
    return [shown(one) for one in value] if isinstance(value, list | tuple) else []


def details(record: dict[str, Any], split: str = "dev") -> dict[str, Any]:
    return table(table(record.get(split)).get("details"))


def metric_of(record: dict[str, Any]) -> str:
    """The name of the score that dev chose by."""
    return shown(record.get("metric") or "")


def splits(record: dict[str, Any]) -> list[str]:
    """The splits that were scored."""
    return [name for name in SPLITS if table(table(record.get(name)).get("scores"))]


def spread(record: dict[str, Any], split: str, name: str) -> Spread:
    """A score of a split with its interval."""
    judged = table(record.get(split))
    low, high = pair(table(judged.get("intervals")).get(name))
    return Spread(number(table(judged.get("scores")).get(name)), low, high)


def pair(value: Any) -> tuple[float, float]:
    """Two borders, or two NaN."""
    found = numbers(value)
    return (float(found[0]), float(found[1])) if len(found) == 2 else (math.nan, math.nan)


def chosen_trial(record: dict[str, Any]) -> dict[str, Any]:
    """The trial that became the model: the chosen rate and seed, else the best score."""
    trials, wanted = tables(record.get("trials")), table(record.get("chosen"))
    keys = [key for key in ("lr", "seed") if key in wanted]
    for trial in trials if keys else []:
        if all(trial.get(key) == wanted[key] for key in keys):
            return trial
    finite = [trial for trial in trials if math.isfinite(number(trial.get("score")))]
    if finite:
        return max(finite, key=lambda trial: number(trial.get("score")))
    return trials[0] if trials else {}


def label_names(record: dict[str, Any], count: int) -> list[str]:
    """The names of so many labels; numbers where the record has other ones."""
    names = strings(record.get("labels"))
    return names if len(names) == count else [str(n) for n in range(count)]


def confusion_of(record: dict[str, Any], split: str) -> NDArray[np.int64] | None:
    """How often each label (row) was taken for each (column), or None."""
    rows = details(record, split).get("confusion")
    cells = [numbers(row) for row in rows] if isinstance(rows, list | tuple) else []
    if not cells or any(len(row) != len(cells) for row in cells):
        return None
    square = np.stack(cells)
    # a count is finite and not negative
    return square.astype(np.int64) if np.isfinite(square).all() and square.min() >= 0 else None


def calibration_sentence(record: dict[str, Any]) -> str:
    """The expected calibration error, and what it was before; nothing where it is not known."""
    found = details(record)
    after, before = (number(found.get(f"calibration_error{end}")) for end in ("", "_before"))
    if not math.isfinite(after):
        return ""
    was = f", before temperature {digits(before)}" if math.isfinite(before) else ""
    return f"Expected calibration error {digits(after)}{was}."


def reliability_of(record: dict[str, Any]) -> list[tuple[float, float, float]]:
    """Bins of rows: how sure, how often right, how many."""
    given = details(record).get("reliability")
    bins = []
    for one in given if isinstance(given, list | tuple) else []:
        keys = ("confidence", "accuracy", "rows")
        values = numbers([one.get(key) for key in keys] if isinstance(one, dict) else one)
        if len(values) == 3 and np.isfinite(values).all():
            sure, right, rows = values.tolist()
            bins.append((sure, right, rows))
    return bins


# ------------------------------------------------------------------ as text


def digits(value: float, after: int = 4) -> str:
    """A score: 0.9123; what is above ten needs fewer places."""
    if not math.isfinite(value):
        return NONE
    return f"{value:.{after}f}" if abs(value) < 10 else f"{value:,.2f}"


def interval(low: float, high: float, after: int = 3) -> str:
    if not math.isfinite(low + high):
        return ""
    joint = " to " if low < 0 else "–"  # -0.1–0.2 would be hard to read
    return f"{digits(low, after)}{joint}{digits(high, after)}"


def whole(value: Any) -> str:
    found = number(value)
    return f"{found:,.0f}" if math.isfinite(found) else NONE


def shown(value: Any) -> str:
    """Any value as a person would write it."""
    if value is None:
        return NONE
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else NONE
    if isinstance(value, dict):
        return ", ".join(f"{key}: {shown(one)}" for key, one in value.items()) or NONE
    if isinstance(value, list | tuple):
        nested = any(isinstance(one, list | tuple | dict) for one in value)
        # [[type, text], ...]: what belongs together stands closer than its neighbours
        parts = [" ".join(map(shown, one)) if isinstance(one, list | tuple) else shown(one)
                 for one in value]  # fmt: skip
        return ("; " if nested else ", ").join(parts) or NONE
    return str(value)


def words(name: str) -> str:
    """macro_f1 as people say it."""
    return name.replace("_", " ")
