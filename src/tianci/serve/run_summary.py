"""How a run stands, in a few words."""

from __future__ import annotations

from dataclasses import dataclass

from tianci.serve.run_digest import Best
from tianci.serve.runs import LOG, RECORD, SCORES, Run, Runs, changed, modified
from tianci.train.history import number, table

QUIET = 180.0  # seconds without a new line after which a run without an end counts as stopped


@dataclass(frozen=True)
class Summary:
    """A run in a few words."""

    state: str  # running, finished, stopped
    started: float | None  # seconds since 1970
    changed: float
    steps: int
    loss: float  # NaN where there is none
    best: Best | None


def sum_up(runs: Runs, run: Run, now: float) -> Summary:
    """How a run stands; of a fine-tuning run all its trials together."""
    started = modified((run.parent or run).folder / RECORD) or None
    latest = changed(run)
    if LOG in run.files:
        digest = runs.digest(run)
        state = "finished" if digest.ended else _awake(latest, now)
        best = digest.best(_metric(runs, run.parent))
        return Summary(state, started, latest, digest.steps, digest.loss, best)
    if SCORES in run.files:
        steps, best = _scored(runs, run)
        return Summary("finished", started, latest, steps, float("nan"), best)
    trials = [one for one in runs.found().runs if one.parent and one.parent.id == run.id]
    latest = max([latest, *(changed(one) for one in trials)])
    digests = [runs.digest(one) for one in trials]
    steps = sum(one.steps for one in digests)
    found = [best for one in digests if (best := one.best(_metric(runs, run)))]
    best = max(found, key=lambda one: one.value, default=None)
    return Summary(_awake(latest, now), started, latest, steps, float("nan"), best)


def _metric(runs: Runs, run: Run | None) -> str:
    """What a fine-tuning run chooses by, as far as its files say."""
    if run is None:
        return ""
    asked = table(runs.read(run, RECORD).get("settings")).get("metric")
    return str(asked or runs.read(run, SCORES).get("metric") or "")


def _awake(latest: float, now: float) -> str:
    return "running" if now - latest < QUIET else "stopped"


def _scored(runs: Runs, run: Run) -> tuple[int, Best | None]:
    """Steps of all trials, and what the chosen model reached on dev."""
    record = runs.read(run, SCORES)
    metric = str(record.get("metric", ""))
    value = number(table(table(record.get("dev")).get("scores")).get(metric))
    given = record.get("trials")
    trials = [table(one) for one in given] if isinstance(given, list) else []
    steps = [n for one in trials if (n := number(one.get("steps"))) == n]
    return int(sum(steps)), Best(metric, value, 0, True) if value == value else None
