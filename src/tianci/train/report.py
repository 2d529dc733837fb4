"""The report of a run: `report.html`, and `curve.png` where matplotlib is installed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from tianci.files import write_file
from tianci.train.charts import loss_chart, main_goal
from tianci.train.history import History, read_history
from tianci.train.page import page

_LOOKS: dict[str, dict[str, Any]] = {
    "raw": {"color": "#2563c9", "alpha": 0.28, "linewidth": 0.8},
    "train": {"color": "#2563c9", "linewidth": 1.8},
    "held": {"color": "#c2570c", "linewidth": 1.2, "marker": "o", "markersize": 3.5},
}


def write_report(run: Path) -> list[str]:
    """Writes the pictures of a run, finished or not; returns what to tell the user."""
    history = read_history(run)
    # bytes: a message may hold half a surrogate pair, which strict UTF-8 would refuse
    write_file(run / "report.html", page(history).encode("utf-8", "replace"))
    notes = [f"report: {run / 'report.html'}"]
    if not main_goal(history) or not len(history.step):
        return [*notes, "no curve.png: the log holds no steps"]
    try:
        picture = curve(history)
    except ImportError:
        return [*notes, "curve.png needs: pip install 'tianci[plot]'"]
    write_file(run / "curve.png", picture)
    return [*notes, f"curve: {run / 'curve.png'}"]


def curve(history: History) -> bytes:
    """The loss with its floors as a PNG."""
    # Not pyplot: it would choose a backend for the whole process.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    chart = loss_chart(history, main_goal(history) or "", tall=True)
    figure = Figure(figsize=(9, 5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for line in chart.lines:
        known = np.isfinite(line.track.value)
        axes.plot(line.track.step, line.track.value, label=_plain(line.name), **_LOOKS[line.look])
        if line.look == "train" and known.sum() == 1:
            axes.plot(line.track.step[known], line.track.value[known], "o", color="#2563c9")
    for level in chart.levels:
        below = chart.name_below(level)
        axes.axhline(level.value, color="#6b7280", linewidth=1, linestyle=(0, (5, 4)))
        axes.annotate(
            level.name, (1, level.value), xycoords=("axes fraction", "data"), ha="right",
            xytext=(-4, -5 if below else 4), textcoords="offset points",
            va="top" if below else "bottom", fontsize=9,
        )  # fmt: skip
    for mark in chart.marks:
        color = "#c22a3a" if mark.kind == "finding" else "#6d4bc4"
        axes.axvline(mark.step, color=color, linewidth=1, linestyle=(0, (2, 3)))
    axes.set_xlim(0, chart.end or 1)
    axes.set_yticks(chart.ticks())
    axes.set_ylim(*chart.range())
    axes.set_title(_plain(chart.title), loc="left", fontweight="bold")
    axes.set_ylabel(chart.unit)
    axes.set_xlabel("step")
    axes.grid(axis="y", color="#e4e7ec")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)
    axes.legend(frameon=False, loc="upper right")
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def _plain(text: str) -> str:
    """Letters that the font of every matplotlib has, and nothing that it takes for a formula."""
    return text.encode("ascii", "replace").decode().replace("$", "?")
