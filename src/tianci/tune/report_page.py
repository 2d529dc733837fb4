"""The report as one HTML page that needs no network, and no script but for the slider."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from tianci import __version__, train
from tianci.train.picture import Chart
from tianci.tune import report_blocks as blocks
from tianci.tune import report_charts as charts
from tianci.tune import report_scores as scores
from tianci.tune import report_trials as trials
from tianci.tune.report_errors import errors_table
from tianci.tune.report_facts import calibration_sentence, splits
from tianci.tune.report_threshold import sweep_of
from tianci.tune.report_top import figures, head, notes

_HERE, _TRAIN = Path(__file__).parent, Path(str(train.__file__)).parent
STOPS = 400


def page(name: str, record: dict[str, Any]) -> str:
    """The whole page."""
    style = _read(_TRAIN / "page.css") + _read(_HERE / "report.css")
    scripts = [_read(_TRAIN / "page.js"), _read(_HERE / "report.js")]
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {hashes}"
    curves, sweep = charts.training_charts(record), sweep_of(record)
    sections = [
        ("scores", "Scores", _scores(record)),
        ("compare", "Comparison", _compare(record)),
        ("threshold", "Threshold", _threshold(record)),
        ("confusion", "Confusion", _confusion(record)),
        ("labels", "Labels" if record.get("labels") else "Answers", _labels(record)),
        ("errors", "Errors", blocks.folded_card(errors_table(record), "errors")),
        ("training", "Training", _training(record, curves)),
        ("settings", "Settings", _settings(record)),
    ]
    there = [(key, title, body) for key, title, body in sections if body]
    links = "".join(f'<a href="#{key}">{title}</a>' for key, title, _ in there)
    body = "\n".join(f'<div class="part" id="{key}">{body}</div>' for key, _, body in there)
    counts = sweep.as_json() if sweep else "null"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(name)} · fine-tuning report</title>
<style>{style}</style>
</head>
<body>
<main>
{head(name, record)}
{figures(record)}
{notes(record)}
<nav aria-label="Parts of this page">{links}</nav>
{body}
<footer>tianci {escape(__version__)} made this page; the same facts are in report.md and
scores.json beside it.</footer>
</main>
<script type="application/json" id="readings">{_readings(record, curves)}</script>
<script type="application/json" id="sweep">{counts}</script>
<script>{scripts[0]}</script>
<script>{scripts[1]}</script>
</body>
</html>
"""


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


# ------------------------------------------------------------------- parts


def _scores(record: dict[str, Any]) -> str:
    return blocks.table_card(scores.scores_table(record), "scores")


def _compare(record: dict[str, Any]) -> str:
    found, plane = scores.compare_table(record), charts.compare_plane(record)
    if found is None:
        return ""
    drawn = ""
    if plane:
        keys = [(f"s{n % charts.LOOKS}", name) for n, name in enumerate(plane[1])]
        drawn = blocks.plane_figure(plane[0], keys, "inner")
    inner = f'<div class="halves">{drawn}{blocks.table_html(found)}</div>'
    return blocks.card(found.title, inner, "comparison", found.note)


def _threshold(record: dict[str, Any]) -> str:
    sweep = sweep_of(record)
    planes = [blocks.plane_figure(p, look="square") for p in charts.ranking_planes(record, sweep)]
    if sweep is None:
        return f'<div class="small c3">{"".join(planes)}</div>' if planes else ""
    names = sweep.names
    keys = [("s0", "precision"), ("s1", "recall"), ("s2", "F1")]
    over = blocks.plane_figure(charts.threshold_plane(sweep), keys, "inner")
    moved = (f'<div class="halves"><div>{over}{blocks.slider(sweep)}</div>'
             f"<div>{blocks.threshold_panel(sweep)}</div></div>")  # fmt: skip
    note = f'On dev: a row counts as "{names[1]}" from this probability on.'
    both = [("box s3", names[0]), ("box s0", names[1])]
    planes.append(blocks.plane_figure(charts.histogram_plane(record, sweep), both, "square"))
    return blocks.card("Threshold", moved, "", note) + (
        f'<div class="small c3">{"".join(planes)}</div>'
    )


def _confusion(record: dict[str, Any]) -> str:
    """The matrices of more than two labels, and what is most often confused."""
    made = [] if sweep_of(record) else _matrices(record, splits(record))
    made.append(blocks.table_card(scores.confused_table(record, "dev")))
    return _columns(made, "small pair matrices")


def _matrices(record: dict[str, Any], of: list[str]) -> list[str]:
    note = "Rows: what is right; columns: what the model said."
    drawn = [(split, blocks.matrix(record, split)) for split in of]
    return [
        blocks.card(f"Confusion matrix, {split}", body, "", note) for split, body in drawn if body
    ]


def _labels(record: dict[str, Any]) -> str:
    left = [blocks.table_card(scores.labels_table(record), "labels")]
    if sweep_of(record):  # dev's matrix follows the threshold
        left += _matrices(record, [split for split in splits(record) if split != "dev"])
    calibration, scatter = charts.calibration_plane(record), charts.scatter_plane(record)
    right = [blocks.plane_figure(scatter, look="square")] if scatter else []
    if calibration:
        note = f"{calibration_sentence(record)} Larger dots stand for more rows.".strip()
        right.append(blocks.plane_figure(calibration, look="square", note=note))
    return _columns([f'<div class="stack">{"".join(side)}</div>' if any(side) else ""
                     for side in (left, right)])  # fmt: skip


def _columns(made: list[str], look: str = "small pair") -> str:
    there = [one for one in made if one]
    return f'<div class="{look}">{"".join(there)}</div>' if there else ""


def _training(record: dict[str, Any], curves: list[Chart]) -> str:
    drawn = [blocks.chart_figure(chart, place) for place, chart in enumerate(curves)]
    tall = [one for one, chart in zip(drawn, curves, strict=True) if chart.tall]
    rest = [one for one, chart in zip(drawn, curves, strict=True) if not chart.tall]
    small = f'<div class="small c3">{"".join(rest)}</div>' if rest else ""
    epochs = blocks.table_card(trials.epochs_table(record))
    return "".join(tall) + small + blocks.table_card(trials.trials_table(record)) + epochs


def _settings(record: dict[str, Any]) -> str:
    made = blocks.table_card(trials.data_table(record), "data")
    both = [trials.decision_table(record), trials.settings_table(record)]
    inner = "".join(blocks.names_and_values(one) for one in both if one)
    body = f'<div class="settings">{inner}</div>'
    return made + (blocks.card("Settings", body) if inner else "")


def _readings(record: dict[str, Any], curves: list[Chart]) -> str:
    """What the pointer reads out of the curves over steps."""
    lines = [line for chart in curves for line in chart.lines if line.look != "raw"]
    steps = np.unique(np.concatenate([line.track.step for line in lines] or [np.empty(0)]))
    kept = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), STOPS)).round().astype(int))
    steps = steps[kept]
    series: dict[str, Any] = {}
    for place, chart in enumerate(curves):
        low, high = chart.range()
        for i, line in enumerate(chart.lines):
            values = line.track.latest(steps)
            down = np.round(100 * (high - values) / (high - low), 1).tolist()
            series[f"{place}.{i}"] = {
                "text": [blocks.chart_reading(chart, value) for value in values.tolist()],
                "down": [d if math.isfinite(d) and 0 <= d <= 100 else None for d in down],
            }
    where = [f"step {step:,.0f}" for step in steps.tolist()]
    data = {"steps": steps.tolist(), "where": where, "series": series}
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
