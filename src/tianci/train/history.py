"""What a run has written down, as arrays that can be drawn: `run.json` and `log.jsonl`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianci.files import read_json
from tianci.train import journal

Array = NDArray[np.float64]

STOPS = 400  # places along a curve that are drawn and read out; screens show hardly more


@dataclass(frozen=True)
class Track:
    """One value over the steps of a run; NaN where there is none."""

    step: Array
    value: Array

    def smooth(self) -> Track:
        """The mean of the neighbours, one in a hundred to each side.

        At the left end the window shrinks evenly, so that the steep start is not flattened.
        """
        n = len(self.value)
        known = np.isfinite(self.value)
        total = np.concatenate([[0.0], np.cumsum(np.where(known, self.value, 0.0))])
        count = np.concatenate([[0], np.cumsum(known)])
        here = np.arange(n)
        half = np.minimum(n // 100, here)
        low, high = here - half, np.minimum(here + half + 1, n)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = (total[high] - total[low]) / (count[high] - count[low])
        return Track(self.step, np.where(known, mean, np.nan))

    def at(self, stops: NDArray[np.int64]) -> Track:
        return Track(self.step[stops], self.value[stops])

    def outline(self, buckets: int = STOPS) -> Track:
        """Lowest and highest point of each stretch, in their order: spikes survive thinning."""
        if len(self.value) <= 2 * buckets:
            return self
        kept: list[int] = []
        for part in np.array_split(np.arange(len(self.value)), buckets):
            known = part[np.isfinite(self.value[part])]
            if not len(known):
                kept.append(int(part[0]))  # a gap stays a gap
                continue
            values = self.value[known]
            kept += sorted({int(known[values.argmin()]), int(known[values.argmax()])})
        return self.at(np.array(kept))

    def latest(self, steps: Array) -> Array:
        """The newest value at or before each step."""
        if not len(self.step):
            return np.full(len(steps), np.nan)
        place = np.searchsorted(self.step, steps, side="right") - 1
        return np.where(place >= 0, self.value[place], np.nan)

    def last(self) -> float:
        known = self.value[np.isfinite(self.value)]
        return float(known[-1]) if len(known) else math.nan


@dataclass(frozen=True)
class Event:
    """Something that happened besides a step."""

    kind: str  # start, resume, finding, end
    step: float
    text: str
    minutes: float


@dataclass(frozen=True)
class History:
    """A run, read back."""

    name: str
    version: str
    seed: str
    settings: dict[str, dict[str, Any]]
    goals: list[str]
    tracks: dict[str, Track]  # lr, gradient, tokens_per_second, tokens, seconds
    losses: dict[str, Track]
    accuracies: dict[str, Track]
    held_losses: dict[str, Track]
    held_accuracies: dict[str, Track]
    events: list[Event]
    saves: int
    facts: dict[str, Any]  # of the end entry; of a run that goes on, only what does not change
    finished: bool

    @property
    def step(self) -> Array:
        return self.tracks["seconds"].step

    @property
    def stops(self) -> NDArray[np.int64]:
        """Which step entries are drawn: all, or evenly chosen ones with the first and the last."""
        n = len(self.step)
        return np.unique(np.linspace(0, n - 1, min(n, STOPS)).round().astype(np.int64))

    @property
    def last_step(self) -> float:
        held = [t.step for t in self.held_losses.values()]
        seen = np.concatenate([self.step, *held, [e.step for e in self.events]])
        return float(seen.max()) if len(seen) else 0.0

    def fact(self, name: str) -> float:
        """A number from the end of the run, or NaN."""
        return number(self.facts.get(name))

    def total(self, name: str) -> float:
        """Tokens or seconds so far, also of a run without an end."""
        told = self.fact(name)
        return told if math.isfinite(told) else self.tracks[name].last()


def number(value: Any) -> float:
    """The value as a float, NaN for anything that is not a number one can draw."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e100:
        return float(value)
    return math.nan


def table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def read_history(run: Path) -> History:
    """Reads a run directory; a missing log or a run without an end is not an error."""
    record = read_json(run / "run.json")
    log = run / "log.jsonl"
    read = journal.read(log) if log.exists() else []
    entries = [
        e
        for e in read
        if isinstance(e, dict) and isinstance(e.get("event"), str) and number(e.get("step")) >= 0
    ]
    steps = sorted((e for e in entries if e.get("event") == "step"), key=_step)
    held = sorted((e for e in entries if e.get("event") == "held"), key=_step)
    facts, finished = _facts(entries)
    end = [e for e in entries if e.get("event") == "end"]
    if finished and table(end[-1].get("held")) and (not held or _step(held[-1]) < _step(end[-1])):
        held.append(end[-1])  # measured once more after the last step
    names = [n for e in steps for n in table(e.get("parts"))]
    names += [n for e in held for n in table(e.get("held"))]
    goals = list(dict.fromkeys(names))
    seconds = _track(steps, lambda e: e.get("seconds"))
    return History(
        name=run.resolve().name,
        version=str(record.get("tianci", "")),
        seed=str(record.get("seed", "")),
        settings={str(k): table(v) for k, v in table(record.get("settings")).items()},
        goals=goals,
        tracks={
            "seconds": seconds,
            "lr": _track(steps, lambda e: e.get("lr")),
            "gradient": _track(steps, lambda e: e.get("gradient")),
            "tokens_per_second": _track(steps, lambda e: e.get("tokens_per_second")),
            "tokens": _track(steps, lambda e: e.get("tokens")),
        },
        losses=_by_goal(steps, goals, lambda e, g: table(e.get("parts")).get(g)),
        accuracies=_by_goal(steps, goals, lambda e, g: table(e.get("accuracy")).get(g)),
        held_losses=_by_goal(
            held, goals, lambda e, g: table(table(e.get("held")).get(g)).get("loss")
        ),
        held_accuracies=_by_goal(
            held, goals, lambda e, g: table(table(e.get("held")).get(g)).get("accuracy")
        ),
        events=[_event(e, seconds) for e in entries if e.get("event") in _TEXTS],
        saves=sum(e.get("event") == "save" for e in entries),
        facts=facts,
        finished=finished,
    )


def _step(entry: Mapping[str, Any]) -> float:
    return number(entry.get("step"))


def _track(entries: list[dict[str, Any]], value: Callable[[dict[str, Any]], Any]) -> Track:
    steps = np.array([_step(e) for e in entries], dtype=np.float64)
    return Track(steps, np.array([number(value(e)) for e in entries], dtype=np.float64))


def _by_goal(
    entries: list[dict[str, Any]], goals: list[str], value: Callable[[dict[str, Any], str], Any]
) -> dict[str, Track]:
    def track(goal: str) -> Track:
        return _track(entries, lambda entry: value(entry, goal))

    return {goal: track(goal) for goal in goals}


def _facts(entries: list[dict[str, Any]]) -> tuple[dict[str, Any], bool]:
    """What the end says, and whether it is the end: a run may have been resumed after it."""
    told = [e for e in entries if e.get("event") in ("start", "resume", "end")]
    if told and told[-1]["event"] == "end":
        return told[-1], True
    lasting = ("unigram_entropy", "bigram_entropy", "parameters", "precision")
    return {k: e[k] for e in told for k in lasting if k in e}, False


def _event(entry: dict[str, Any], seconds: Track) -> Event:
    known = np.isfinite(seconds.value)
    at = _step(entry)
    minutes = (
        float(np.interp(at, seconds.step[known], seconds.value[known])) / 60
        if known.any() and at > 0
        else 0.0
    )
    kind = str(entry["event"])
    return Event(kind, at, _TEXTS[kind](entry), minutes)


def _began(entry: Mapping[str, Any]) -> str:
    lr, warmup = number(entry.get("lr")), number(entry.get("warmup"))
    parts = [f"peak learning rate {rate(lr)}" if lr == lr else ""]
    parts.append(f"warm-up over {100 * warmup:.3g}% of the run" if warmup == warmup else "")
    return ", ".join(p for p in parts if p)


_TEXTS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "start": _began,
    "resume": _began,
    "finding": lambda e: f"{e.get('fault', '')}: {e.get('message', '')}",
    "end": lambda e: str(e.get("verdict", "")),
    **{name: (lambda e: str(e.get("message", ""))) for name in ("memory", "skip", "return")},
}


def rate(value: float) -> str:
    """A learning rate as one would type it: 3e-4."""
    if not value:
        return "0"
    digits, power = f"{value:.2e}".split("e")
    return f"{float(digits):g}e{int(power)}"
