"""Pieces of the page: tables, figures, the confusion matrix. Everything from the record is
escaped."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from html import escape
from typing import Any

from tianci.train.picture import Chart, draw
from tianci.tune.report_facts import NONE, confusion_of, digits, label_names, whole
from tianci.tune.report_plane import Plane, draw_plane
from tianci.tune.report_table import Bar, Cell, Noted, Table
from tianci.tune.report_threshold import Sweep

LONG = 240  # characters of a text that are shown before one asks for the rest
FITS = 12  # labels whose counts can be read in a matrix
TINY = 60  # labels whose cells can be seen in a matrix


def card(title: str, body: str, look: str = "", note: str = "", name: str = "") -> str:
    """A section of the page; `name` is what a link goes to."""
    said = f'<p class="note">{escape(note)}</p>' if note else ""
    place = f' id="{name}"' if name else ""
    return f'<section class="card {look}"{place}><h2>{escape(title)}</h2>{said}{body}</section>'


def table_card(table: Table | None, look: str = "", name: str = "") -> str:
    """A table under its title, or nothing."""
    return card(table.title, table_html(table, look), look, table.note, name) if table else ""


def folded_card(table: Table | None, look: str, open_rows: int = 10) -> str:
    """A long table: the first rows, and the rest for those who ask."""
    if table is None or len(table.rows) <= open_rows + 2:
        return table_card(table, look)
    first = dataclasses.replace(table, rows=table.rows[:open_rows])
    rest = dataclasses.replace(table, rows=table.rows[open_rows:])
    more = (
        f'<details class="fold"><summary>{len(rest.rows)} more</summary>'
        f"{table_html(rest, look)}</details>"
    )
    return card(table.title, table_html(first, look) + more, look, table.note)


def table_html(table: Table, look: str = "") -> str:
    """A table that scrolls sideways where it does not fit."""
    side = [" class=num" if letter == "r" else "" for letter in table.align]
    head = "".join(
        f'<th scope="col"{at}>{escape(name)}</th>'
        for name, at in zip(table.head, side, strict=True)
    )
    drawn = any(table.bars)
    low, high = table.scale
    head += f'<td class="bar"><span class="scale"><i>{low}</i><i>{high}</i></span></td>' * drawn
    body = []
    for number, row in enumerate(table.rows):
        first, *rest = zip(table.head, side, row, strict=True)
        cells = f'<th scope="row"{first[1]} data-head="{escape(first[0])}">{_name(first[2])}</th>'
        cells += "".join(
            f'<td{at} data-head="{escape(name)}">{_cell(cell)}</td>' for name, at, cell in rest
        )
        cells += f'<td class="bar">{_bars(table.bars[number])}</td>' if drawn else ""
        strong = ' class="strong"' if number == table.strong else ""
        body.append(f"<tr{strong}>{cells}</tr>")
    inner = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    return scrolling(inner, table.title, f"rows {look}")


def scrolling(inner: str, title: str, look: str) -> str:
    """A box that a keyboard can scroll too."""
    return (
        f'<div class="scroll {look.strip()}" role="region" tabindex="0" '
        f'aria-label="{escape(title)}">{inner}</div>'
    )


def _cell(cell: Cell) -> str:
    if isinstance(cell, Noted):
        small = f"<small>{escape(cell.note)}</small>" if cell.note else ""
        return escape(cell.text) + small
    if len(cell) <= LONG * 1.25:  # a rest of a few letters is not worth a click
        return escape(cell)
    start, rest = cell[:LONG], cell[LONG:]
    return f"<details><summary>{escape(start)}</summary>{escape(rest)}</details>"


def _name(cell: Cell) -> str:
    """The first cell of a row; average_precision may break where it has a joint."""
    return _cell(cell).replace("_", "_<wbr>")


def _bars(bars: Sequence[Bar]) -> str:
    parts = []
    for bar in bars:
        wide = 100 * (bar.high - bar.low)
        at = f'<i class="at" style="left:{100 * bar.at:.4g}%"></i>' if bar.at == bar.at else ""
        parts.append(f'<span class="span {bar.look}"><i style="left:{100 * bar.low:.4g}%;'
                     f'width:{wide:.4g}%"></i>{at}</span>')  # fmt: skip
    return "".join(parts)


# ---------------------------------------------------------------- pictures


def names_and_values(table: Table) -> str:
    """Two columns, as the settings of a run are shown."""
    rows = ""
    for name, value in table.rows:
        none = ' class="none"' if value == "not set" else ""
        rows += f'<tr><th scope="row">{_cell(name)}</th><td{none}>{_cell(value)}</td></tr>'
    head = f'<thead><tr><th colspan="2">{escape(table.title)}</th></tr></thead>'
    return f'<table class="short">{head}<tbody>{rows}</tbody></table>'


def plane_figure(
    plane: Plane, keys: Sequence[tuple[str, str]] = (), look: str = "", note: str = ""
) -> str:
    """A plane with its title and the names of its colours."""
    named = "".join(f'<span class="key {colour}">{escape(name)}</span>' for colour, name in keys)
    said = f'<p class="note">{escape(note)}</p>' if note else ""
    title, _, small = plane.title.partition(" · ")
    more = f" <small>{escape(small)}</small>" if small else ""
    return (
        f'<figure class="card {look}"><figcaption><h2>{escape(title)}{more}</h2>'
        f'<div class="keys">{named}</div></figcaption>'
        f'<p class="up">{escape(plane.up.title)}</p>'
        f'<div class="plane">{draw_plane(plane)}</div>{said}</figure>'
    )


def chart_figure(chart: Chart, place: int) -> str:
    """A curve over steps with a legend that the script fills with the values under the pointer."""
    keys = "".join(
        f'<span class="key {line.look}">{escape(line.name)} <output data-series="{place}.{i}">'
        f"{chart_reading(chart, line.track.last())}</output></span>"
        for i, line in enumerate(chart.lines)
        if line.look != "raw"
    )
    others = sum(line.look == "raw" and bool(line.name) for line in chart.lines)
    if others:
        keys += f'<span class="key raw">other trials ({others})</span>'
    unit = f" <small>{escape(chart.unit)}</small>" if chart.unit else ""
    tall = " tall" if chart.tall else ""
    return (
        f'<figure class="card{tall}"><figcaption><h2>{escape(chart.title)}{unit}</h2>'
        f'<div class="keys">{keys}</div></figcaption>'
        f'<div class="plot" data-end="{chart.end:.12g}">{draw(chart)}</div></figure>'
    )


def chart_reading(chart: Chart, value: float) -> str:
    return chart.reading(value) if math.isfinite(value) else NONE


# ---------------------------------------------------------------- matrices


def matrix(record: dict[str, Any], split: str) -> str:
    """The confusion matrix with colours; with too many labels to read, colours only."""
    counts = confusion_of(record, split)
    if counts is None or len(counts) > TINY:
        return ""
    names = label_names(record, len(counts))
    small = len(counts) > FITS
    head = "".join(f'<th scope="col"><span>{escape(name)}</span></th>' for name in names)
    rows = []
    for place, (name, row) in enumerate(zip(names, counts.tolist(), strict=True)):
        total = sum(row) or 1
        cells = ""
        for other, count in enumerate(row):
            look = "hit" if other == place else "miss" if count else "none"
            said = f"{name}, said {names[other]}: {count:,}"
            text = f"{count:,}<small>{count / total:.0%}</small>" if count else "0"
            text = "" if small else text
            cells += (f'<td class="{look}" style="--heat:{count / total:.3f}" '
                      f'title="{escape(said)}">{text}</td>')  # fmt: skip
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
    inner = _matrix(head, rows, "matrix tiny" if small else "matrix")
    return scrolling(inner, f"Confusion matrix, {split}", "")


def _matrix(head: str, rows: Sequence[str], look: str) -> str:
    corner = '<td class="corner">right ↓ said →</td>'
    return (
        f'<table class="{look}"><thead><tr>{corner}{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def threshold_panel(sweep: Sweep) -> str:
    """What the threshold gives, as numbers and as a matrix; the script keeps both up to date."""
    now = sweep.reading(sweep.at)
    tiles = "".join(
        f'<div><dt>{title}</dt><dd data-read="{key}">{digits(value, after)}</dd></div>'
        for title, key, value, after in (
            ("Threshold", "threshold", now.threshold, 2),
            ("Precision", "precision", now.precision, 3),
            ("Recall", "recall", now.recall, 3),
            ("F1", "f1", now.f1, 3),
            ("Accuracy", "accuracy", now.accuracy, 3),
        )
    )
    head = "".join(f'<th scope="col"><span>{escape(name)}</span></th>' for name in sweep.names)
    rows = []
    for right, (name, counts) in enumerate(zip(sweep.names, now.confusion, strict=True)):
        total = sum(counts) or 1
        cells = "".join(
            f'<td class="{"hit" if right == said else "miss"}" data-cell="{right}{said}" '
            f'style="--heat:{count / total:.3f}"><span>{whole(count)}</span>'
            f"<small>{count / total:.0%}</small></td>"
            for said, count in enumerate(counts)
        )
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
    inner = _matrix(head, rows, "matrix")
    return f'<dl class="figures">{tiles}</dl>{scrolling(inner, "Confusion matrix, dev", "")}'


def slider(sweep: Sweep) -> str:
    """The control; hidden until the script is there to answer it."""
    chosen = f"{sweep.stops[sweep.at]:g}"
    return (
        f'<div class="slider" hidden><input type="range" min="0" max="{len(sweep.stops) - 1}" '
        f'step="1" value="{sweep.at}" aria-label="Threshold">'
        f'<button type="button">back to {escape(chosen)}</button></div>'
    )
