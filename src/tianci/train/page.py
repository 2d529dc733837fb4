"""The report of a run as one HTML page that needs no network and no script.

Everything that comes from the run's files is escaped, and the page's own policy lets no script
run but ours.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from tianci.goals.language import LANGUAGE, language_of
from tianci.train.charts import loss_chart, main_goal, small_charts, words
from tianci.train.history import Event, History, number, table
from tianci.train.picture import Chart, draw

_HERE = Path(__file__).parent


def page(history: History) -> str:
    """The whole page."""
    style = (_HERE / "page.css").read_text(encoding="utf-8")
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    goal = main_goal(history)
    charts: list[Chart] = []
    if goal and len(history.step):
        charts = [loss_chart(history, goal, tall=True), *small_charts(history, goal)]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(history.name)} · pre-training report</title>
<style>{style}</style>
</head>
<body>
<main>
{_head(history)}
{_figures(history)}
{_pictures(charts)}
{_events(history.events)}
{_settings(history)}
<footer>tianci {escape(history.version)} made this page from log.jsonl
({len(history.step):,} step entries, {history.saves:,} checkpoints saved).</footer>
</main>
<script type="application/json" id="readings">{_readings(history, charts)}</script>
<script>{script}</script>
</body>
</html>
"""


# -------------------------------------------------------------------- top


def verdict(history: History) -> tuple[str, str]:
    """How it went (good, fair, bad, open) and the sentence that says so."""
    said = str(history.facts.get("verdict", "")) if history.finished else ""
    held = history.held_losses.get(language_of(history.held_losses) or "")
    loss = held.last() if held else math.nan
    if said:
        unigram, bigram = history.fact("unigram_entropy"), history.fact("bigram_entropy")
        if not math.isfinite(loss + unigram + bigram):
            return "open", said
        return "bad" if loss > unigram - 0.1 else "fair" if loss > bigram else "good", said
    if not len(history.step):
        return "open", "nothing to show yet: the log holds no steps"
    if history.finished:
        return "open", f"finished at step {history.last_step:,.0f}"
    last = history.events[-1] if history.events else None
    if last and last.kind == "finding" and last.step >= history.step[-1]:
        return "bad", f"not finished: {last.text}"
    goal = main_goal(history)
    train = history.losses[goal].smooth().last() if goal else math.nan
    facts = f"; the {words(goal)} loss stands at {train:.2f}" if goal and train == train else ""
    return "open", f"not finished: the log ends at step {history.step[-1]:,.0f}{facts}"


def _head(history: History) -> str:
    state, sentence = verdict(history)
    first, colon, rest = sentence.partition(": ")
    chosen = table(history.settings.get("pretrain"))
    about = [
        "pre-training",
        str(chosen.get("start_from") or chosen.get("preset") or ""),
        " + ".join(words(g) for g in history.goals),
        f"seed {history.seed}" if history.seed else "",
    ]
    return f"""<header>
<p class="about">{escape(" · ".join(a for a in about if a))}</p>
<h1>{escape(history.name)}</h1>
<p class="verdict {state}"><strong>{escape(first[:1].upper() + first[1:])}{colon.strip()}</strong>
{escape(rest)}</p>
</header>"""


def _figures(history: History) -> str:
    tiles: list[tuple[str, str, str]] = []
    bigram = history.fact("bigram_entropy")
    for goal in history.goals:
        loss = history.held_losses[goal].last()
        accuracy = history.held_accuracies[goal].last()
        if goal in LANGUAGE and math.isfinite(loss):
            note = f"bigram floor {bigram:.2f}" if bigram == bigram else "nats per token"
            tiles.append(("Held-out loss", f"{loss:.3f}", note))
        if math.isfinite(accuracy):
            tiles.append(("Held-out accuracy", f"{accuracy:.1%}", words(goal)))
    parameters, tokens = history.fact("parameters"), history.total("tokens")
    seconds, share = history.total("seconds"), history.fact("share_of_peak")
    speed = history.fact("tokens_per_second")
    if math.isnan(speed) and seconds > 0:
        speed = tokens / seconds
    exact = "{:,.0f}".format
    tiles += [
        ("Parameters", large(parameters), exact(parameters)),
        ("Tokens", large(tokens), exact(tokens)),
        ("Training time", duration(seconds), f"{history.last_step:,.0f} steps"),
        ("Speed", exact(speed), "tokens/s"),
        ("Share of peak", f"{share:.0%}" if share >= 0.1 else f"{share:.1%}", "of this machine"),
        ("Precision", str(history.facts.get("precision", "nan")), "matrix products"),
    ]
    shown = [t for t in tiles if t[1] != "nan" and t[1] != "nan%"]
    items = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>"
        for name, value, note in shown
    )
    return f'<dl class="figures">{items}</dl>' if shown else ""


def large(value: float) -> str:
    """11,170,816 as 11.2M."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.0f}"


def duration(seconds: float) -> str:
    if math.isnan(seconds):
        return "nan"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return (
        f"{minutes:.1f} min" if minutes < 100 else f"{minutes // 60:.0f} h {minutes % 60:.0f} min"
    )


# --------------------------------------------------------------- pictures


def _pictures(charts: Sequence[Chart]) -> str:
    if not charts:
        return ""
    first, *rest = [_figure(chart, i) for i, chart in enumerate(charts)]
    columns = 3 if len(rest) % 3 == 0 else 2
    small = f'<div class="small c{columns}">{"".join(rest)}</div>'
    return f'<section aria-label="Curves">{first}{small}</section>'


def _figure(chart: Chart, place: int) -> str:
    keys = "".join(
        f'<span class="key {line.look}">{escape(line.name)} '
        f'<output data-series="{place}.{i}">{_reading(chart, line.track.last())}</output></span>'
        for i, line in enumerate(chart.lines)
        if line.look != "raw"
    )
    notes = []
    if chart.tall and len(chart.levels) == 2:
        notes.append(
            "Unigram floor: the loss of a model that only knows how frequent each token is. "
            "Bigram floor: of one that also knows the token before."
        )
    if math.isfinite(chart.beyond()):
        notes.append(f"Peaks of up to {_reading(chart, chart.beyond())} lie above the picture.")
    caption = f'<p class="note">{escape(" ".join(notes))}</p>' if notes else ""
    size = " tall" if chart.tall else ""
    unit = f" <small>{escape(chart.unit)}</small>" if chart.unit else ""
    return (
        f'<figure class="card{size}"><figcaption><h2>{escape(chart.title)}{unit}</h2>'
        f'<div class="keys">{keys}</div></figcaption>'
        f'<div class="plot" data-end="{chart.end or 1:.12g}">{draw(chart)}</div>{caption}</figure>'
    )


def _reading(chart: Chart, value: float) -> str:
    return escape(chart.reading(value)) if math.isfinite(value) else "–"


def _readings(history: History, charts: Sequence[Chart]) -> str:
    """What the pointer reads out: the words and the heights at every stop."""
    stops = history.stops
    steps = history.step[stops]
    minutes, tokens = (history.tracks[n].value[stops] for n in ("seconds", "tokens"))
    where = [
        " · ".join(
            [f"step {s:,.0f}"]
            + ([duration(m)] if m == m else [])
            + ([f"{large(t)} tokens"] if t == t else [])
        )
        for s, m, t in zip(steps.tolist(), minutes.tolist(), tokens.tolist(), strict=True)
    ]
    series: dict[str, Any] = {}
    for place, chart in enumerate(charts):
        low, high = chart.range()
        for i, line in enumerate(chart.lines):
            if line.look != "raw":
                values = line.track.latest(steps)
                down = np.round(100 * (high - values) / (high - low), 1).tolist()
                series[f"{place}.{i}"] = {
                    "text": [_reading(chart, v) for v in values.tolist()],
                    "down": [d if math.isfinite(d) and 0 <= d <= 100 else None for d in down],
                }
    data = {"steps": steps.tolist(), "where": where, "series": series}
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


# ----------------------------------------------------------------- tables


def _events(events: Sequence[Event]) -> str:
    if not events:
        return ""
    rows = "".join(
        f'<li class="{e.kind}"><b>{i}</b><span class="when">step {e.step:,.0f} '
        f"<span>{duration(60 * e.minutes)}</span></span>"
        f'<span><span class="kind">{e.kind}</span> {escape(e.text)}</span></li>'
        for i, e in enumerate(events, 1)
    )
    return f'<section class="card"><h2>Events</h2><ol class="events">{rows}</ol></section>'


def _settings(history: History) -> str:
    tables = ""
    for name, values in history.settings.items():
        rows = [
            f'<tr><th scope="row">{escape(str(key))}</th>{_cell(value)}</tr>'
            for key, value in values.items()
        ]
        head = f'<thead><tr><th colspan="2">{escape(name)}</th></tr></thead>'
        size = ' class="short"' if len(rows) <= 12 else ""  # a long one may fill two columns
        tables += f"<table{size}>{head}<tbody>{''.join(rows)}</tbody></table>" if rows else ""
    if not tables:
        return ""
    return f'<section class="card"><h2>Settings</h2><div class="settings">{tables}</div></section>'


def _cell(value: Any) -> str:
    if value is None or value == "":
        return '<td class="none">not set</td>'
    if isinstance(value, str):
        return f"<td>{escape(value)}</td>"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"<td>{value:,}</td>"
    finite = math.isfinite(number(value))
    text = f"{value:g}" if finite else json.dumps(value, ensure_ascii=False, default=str)
    return f"<td>{escape(text)}</td>"
