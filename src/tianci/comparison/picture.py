"""The scores of a comparison as a picture: a panel per task, a dot per seed, a tick at the mean."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

COLOURS = ("#2563c9", "#c2570c", "#0f7b5f", "#6d4bc4", "#b0306a", "#7a6a12", "#3a4656", "#1f8fa8")
GREY = "#8a94a3"  # of what was not pre-trained


def draw(record: Mapping[str, Any]) -> bytes | None:
    """A PNG; None where no task was learned."""
    # Not pyplot: it would choose a backend for the whole process.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = record["rows"]
    tasks = [name for name in record["tasks"] if any(name in row["tasks"] for row in rows)]
    if not tasks:
        return None
    high = 1.1 + 0.36 * len(rows)
    figure = Figure(figsize=(3.6 * len(tasks) + 1.4, high + 0.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(_plain(record["title"]), x=0.01, ha="left", fontweight="bold")
    axes = figure.subplots(1, len(tasks), squeeze=False)[0]
    colours = iter(COLOURS * (1 + len(rows) // len(COLOURS)))
    colour = {row["model"]: next(colours) if "family" in row else GREY for row in rows}
    for number, (axis, name) in enumerate(zip(axes, tasks, strict=True)):
        _panel(axis, name, rows, colour, number == 0)
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def _panel(axis: Any, name: str, rows: Any, colour: Mapping[str, str], first: bool) -> None:
    """One task: the models from the top down."""
    known = [row["tasks"][name] for row in rows if name in row["tasks"]]
    for place, row in enumerate(rows):
        task = row["tasks"].get(name)
        if task is None:
            continue
        axis.hlines(place, task["low"], task["high"], color=colour[row["model"]], lw=6, alpha=0.25)
        axis.vlines(task["mean"], place - 0.31, place + 0.31, color=colour[row["model"]], lw=2)
        axis.plot(task["scores"], [place] * len(task["scores"]), "o", ms=4,
                  color=colour[row["model"]])  # fmt: skip
    low, high = min(task["low"] for task in known), max(task["high"] for task in known)
    room = max(high - low, 0.02)
    axis.set_xlim(low - 0.15 * room, high + 0.15 * room)
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_yticks(range(len(rows)))
    axis.set_yticklabels([_plain(row["model"]) for row in rows] if first else [""] * len(rows))
    axis.set_title(_plain(f"{name}: {known[0]['metric']} on {known[0]['split']}"), fontsize=10)
    axis.grid(color="#e4e7ec")
    axis.set_axisbelow(True)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(length=0, labelsize=9)


def _plain(text: str) -> str:
    """Letters that the font of every matplotlib has, and nothing that it takes for a formula."""
    return text.encode("ascii", "replace").decode().replace("$", "?")
