"""Rates and seeds are tried, dev rows choose; what went nowhere is tried once more, slower."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tianci.tune.start import load_base
from tianci.tune.trial import run_trial
from tianci.tune.work import Diverged, Result, Work, free_memory, seeds_of, tell

SLOWER = 1 / 3  # the rate of a second attempt


@dataclass
class Chosen:
    """All trials, and the one that dev rows prefer."""

    trials: list[tuple[Path, Result]]
    folder: Path
    best: Result
    spread: dict[str, float] | None = None  # over the seeds of the chosen rate
    notes: list[str] = field(default_factory=list)


def choose_trial(work: Work, seed: int, folder: Path) -> Chosen:
    """Trains every rate with every seed; the rate with the best mean wins, then its best seed."""
    width = int(load_base(work.settings.model, work.tokenizer).model.config.width)
    rates, seeds = work.settings.rates(width), seeds_of(seed, work.settings.seeds)
    by_rate: dict[float, list[tuple[Path, Result]]] = {}
    notes: list[str] = []
    for lr in rates:
        for one in seeds:
            try:
                place, result = _attempt(work, lr, one, folder, notes)
            except Diverged as error:
                if len(rates) * len(seeds) == 1:
                    raise
                notes.append(str(error))
                tell(work, f"! {error}")
                continue
            by_rate.setdefault(lr, []).append((place, result))
            free_memory()
            if len(rates) * len(seeds) > 1:
                tell(
                    work, f"rate {result.lr:.1e}, seed {one}: dev {work.metric} {result.score:.4f}"
                )
    if not by_rate:
        raise Diverged(f"every trial ended without a number; the last one: {notes[-1]}")
    wins = max(by_rate, key=lambda lr: statistics.fmean(r.score for _, r in by_rate[lr]))
    place, best = max(by_rate[wins], key=lambda pair: pair[1].score)
    trials = [pair for pairs in by_rate.values() for pair in pairs]
    return Chosen(trials, place, best, _spread([r.score for _, r in by_rate[wins]]), notes)


def _attempt(
    work: Work, lr: float, seed: int, folder: Path, notes: list[str]
) -> tuple[Path, Result]:
    """A trial; if it says one thing for all rows, once more with a lower rate."""
    place = folder / f"lr-{lr:.2e}-seed-{seed}"
    result = run_trial(work, lr, seed, place)
    if result.trouble is None:
        return place, result
    note = (
        f"with rate {lr:.1e} and seed {seed} the model learned nothing: {result.trouble}; "
        f"it was trained once more with rate {lr * SLOWER:.1e}"
    )
    tell(work, f"! {note}")
    second = folder / f"lr-{lr * SLOWER:.2e}-seed-{seed}-again"
    again = run_trial(work, lr * SLOWER, seed, second)
    if again.trouble is not None:
        note += (
            f", and again: {again.trouble}. Likely causes: labels that do not fit the texts, too "
            "few rows, or a model that has not learned to read"
        )
        tell(work, f"! {note}")
    notes.append(note)
    return (second, again) if again.score >= result.score else (place, result)


def _spread(scores: list[float]) -> dict[str, float] | None:
    if len(scores) < 2:
        return None
    return {
        "mean": statistics.fmean(scores),
        "sd": statistics.stdev(scores),
        "low": min(scores),
        "high": max(scores),
        "count": len(scores),
    }


def table(chosen: Chosen, metric: str) -> list[dict[str, Any]]:
    """One line per trial, for people."""
    return [
        {"lr": r.lr, "seed": r.seed, metric: r.score, "epochs": r.epochs, "seconds": r.seconds}
        for _, r in chosen.trials
    ]
