"""Which pictures a run's report shows: the loss with its floors, and the small ones below it."""

from __future__ import annotations

import math

import numpy as np

from tianci.goals.language import LANGUAGE, language_of
from tianci.train.history import History, Track, number, rate, table
from tianci.train.picture import Chart, Level, Line, Mark, compact, percent
from tianci.train.settings import Train

CHANCE = 0.5  # of a question with two answers
PAIRS = ("next_sentence", "sentence_order")


def loss_chart(history: History, goal: str, tall: bool = False) -> Chart:
    """The loss of one goal, with what it must get below."""
    return Chart(
        title=f"{words(goal).capitalize()} loss",
        unit="nats per token" if goal in LANGUAGE else "nats",
        lines=_curves(history, history.losses[goal], history.held_losses[goal]),
        end=history.last_step,
        levels=floors(history, goal),
        marks=marks(history),
        tall=tall,
    )


def floors(history: History, goal: str) -> list[Level]:
    """The loss of models that do not read: they count, know the token before, or toss a coin."""
    if goal in PAIRS:
        return [Level(f"chance {math.log(2):.2f}", math.log(2))]
    if goal not in LANGUAGE:
        return []
    unigram, bigram = history.fact("unigram_entropy"), history.fact("bigram_entropy")
    both = [
        Level(f"unigram floor {unigram:.2f}", unigram),
        Level(f"bigram floor {bigram:.2f}", bigram),
    ]
    return [level for level in both if math.isfinite(level.value)]


def accuracy_chart(history: History, goal: str) -> Chart:
    return Chart(
        title=f"{words(goal).capitalize()} accuracy",
        unit="share right",
        lines=_curves(history, history.accuracies[goal], history.held_accuracies[goal]),
        end=history.last_step,
        levels=[Level("chance 50%", CHANCE)] if goal in PAIRS else [],
        marks=marks(history),
        from_zero=goal not in PAIRS,
        axis=percent,
        reading="{:.1%}".format,
    )


def small_charts(history: History, main: str) -> list[Chart]:
    """Accuracy of every goal, loss of the others, and how the machine and the optimizer did."""
    charts = [accuracy_chart(history, goal) for goal in history.goals]
    charts += [loss_chart(history, goal) for goal in history.goals if goal != main]
    # run.json holds only what was set
    clip = number(table(history.settings.get("train")).get("clip", Train.clip))
    charts.append(_value(history, "Learning rate", "", "lr", smooth=False))
    charts.append(
        _value(
            history,
            "Gradient norm",
            "before clipping",
            "gradient",
            [Level(f"clip {clip:g}", clip)] if clip > 0 else [],
        )
    )
    charts.append(_value(history, "Speed", "tokens/s", "tokens_per_second"))
    return charts


def main_goal(history: History) -> str | None:
    """The goal whose loss is the large picture."""
    return language_of(history.goals) or next(iter(history.goals), None)


def marks(history: History) -> list[Mark]:
    """Resumes and findings; the number is the one in the list of events."""
    return [
        Mark(e.kind, e.step, i, e.text)
        for i, e in enumerate(history.events, 1)
        if e.kind in ("resume", "finding")
    ]


def words(name: str) -> str:
    return name.replace("_", " ")


def _curves(history: History, track: Track, held: Track) -> list[Line]:
    lines = _train(history, track)
    known = np.isfinite(held.value)
    if known.any():
        lines.append(Line("held-out", "held", Track(held.step[known], held.value[known]).outline()))
    return lines


def _train(history: History, track: Track) -> list[Line]:
    smooth = track.smooth()
    line = Line("train", "train", smooth.at(history.stops))
    # a short log has nothing to smooth: one curve, not two on top of each other
    same = np.array_equal(smooth.value, track.value, equal_nan=True)
    return [line] if same else [Line("every entry", "raw", track.outline()), line]


def _value(
    history: History, title: str, unit: str, name: str, levels: list[Level] | None = None,
    smooth: bool = True,
) -> Chart:  # fmt: skip
    track = history.tracks[name]
    lines = _train(history, track) if smooth else [Line("train", "train", track.at(history.stops))]
    return Chart(
        title=title,
        unit=unit,
        lines=[Line("", line.look, line.track) for line in lines],
        end=history.last_step,
        levels=levels or [],
        marks=marks(history),
        from_zero=True,
        axis={"lr": rate, "tokens_per_second": compact}.get(name, "{:g}".format),
        reading={"lr": rate, "tokens_per_second": "{:,.0f}".format}.get(name, "{:.2f}".format),
    )
