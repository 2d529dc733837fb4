"""Which pictures a report shows: curves over steps, and planes for thresholds, calibration, ..."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tianci.metrics import ranking
from tianci.train.history import Track, number, rate, table
from tianci.train.picture import Chart, Line, Mark, compact
from tianci.tune.report_facts import (
    chosen_trial,
    details,
    digits,
    interval,
    metric_of,
    numbers,
    reliability_of,
    shown,
    tables,
    whole,
    words,
)
from tianci.tune.report_plane import (
    Array,
    Axis,
    Cloud,
    Column,
    Curve,
    Dot,
    Plane,
    Pointer,
    Shape,
    axis,
    unit_axis,
)
from tianci.tune.report_threshold import Sweep

LOOKS = 5  # colours of series in the style sheet
BINS = 20
DIAGONAL = np.array([0.0, 1.0])


# -------------------------------------------------------------- over steps


def training_charts(record: dict[str, Any]) -> list[Chart]:
    """Dev after each epoch, the loss, the rate and the speed of the chosen trial."""
    trial, metric = chosen_trial(record), metric_of(record)
    end = last_step(record)
    if not end > 0:
        return []
    log = tables(trial.get("log"))
    best = number(trial.get("step"))
    marks = [Mark("best", best, 1, "the epoch that was kept")] if 0 < best <= end else []
    others = [t for t in tables(record.get("trials")) if t is not trial]
    dev = [Line("other trials", "raw", _dev_track(t, metric)) for t in others]
    dev.append(Line("this model", "held", _dev_track(trial, metric)))
    charts = []
    if any(np.isfinite(line.track.value).any() for line in dev):
        title = f"{words(metric).capitalize()} on dev"
        charts.append(Chart(title, "after each epoch", dev, end, marks=marks, tall=True))
    loss = _track(log, "loss")
    lines = [Line("", "train", loss.smooth())]
    if not np.allclose(lines[0].track.value, loss.value, equal_nan=True):
        lines.insert(0, Line("", "raw", loss))
    small = [
        Chart("Training loss", "", lines, end, marks=marks),
        Chart("Learning rate", "", [Line("", "train", _track(log, "lr"))], end, marks=marks,
              from_zero=True, axis=rate, reading=rate),
        Chart("Speed", "tokens/s", [Line("", "train", _track(log, "tokens_per_second"))], end,
              marks=marks, from_zero=True, axis=compact, reading="{:,.0f}".format),
    ]  # fmt: skip
    return charts + [c for c in small if np.isfinite(c.lines[-1].track.value).any()]


def last_step(record: dict[str, Any]) -> float:
    """The last step of any trial; all curves share one axis."""
    seen = [0.0]
    for trial in tables(record.get("trials")):
        for one in [*tables(trial.get("log")), *tables(trial.get("history"))]:
            seen.append(number(one.get("step")))
    return max(step for step in seen if math.isfinite(step))


def _track(entries: list[dict[str, Any]], name: str) -> Track:
    known = [one for one in entries if number(one.get("step")) >= 0]
    steps = numbers([one.get("step") for one in known])
    return Track(steps, numbers([one.get(name) for one in known]))


def _dev_track(trial: dict[str, Any], metric: str) -> Track:
    past = tables(trial.get("history"))
    return _track([{**one, "score": table(one.get("scores")).get(metric)} for one in past], "score")


# --------------------------------------------------------------- thresholds


def threshold_plane(sweep: Sweep) -> Plane:
    """Precision, recall and F1 over the threshold."""
    found = sweep.readings()
    stops = np.array(sweep.stops)
    now = found[sweep.at]
    best = max(found, key=lambda r: r.f1 if math.isfinite(r.f1) else -1.0)
    shapes: list[Shape] = [
        Curve("s0", stops, np.array([r.precision for r in found])),
        Curve("s1", stops, np.array([r.recall for r in found])),
        Curve("s2", stops, np.array([r.f1 for r in found])),
        Pointer("threshold", now.threshold),
    ]
    said = (
        f"Precision, recall and F1 over the threshold: at {now.threshold:g} they are "
        f"{digits(now.precision, 3)}, {digits(now.recall, 3)} and {digits(now.f1, 3)}; "
        f"the highest F1 is {digits(best.f1, 3)} at {best.threshold:g}"
    )
    plane_axis = unit_axis("threshold")
    return Plane("Over the threshold", said, plane_axis, unit_axis("score"), shapes)


def ranking_planes(record: dict[str, Any], sweep: Sweep | None) -> list[Plane]:
    """Precision over recall, and ROC, with the point of the threshold."""
    found = table(details(record).get("curves")) or _curves(record)
    scores = table(table(record.get("dev")).get("scores"))
    now = sweep.reading(sweep.at) if sweep else None
    planes = []
    x, y = _points(found.get("precision_recall"))
    if len(x):
        area = _area("average precision", scores.get("average_precision"))
        shapes: list[Shape] = [Curve("s0", x, y)]
        if now and math.isfinite(now.recall + now.precision):
            shapes.append(Pointer("precision_recall", now.recall, now.precision))
        said = f"Precision over recall{area}"
        planes.append(Plane(f"Precision and recall{area}", said,
                            unit_axis("recall"), unit_axis("precision"), shapes))  # fmt: skip
    x, y = _points(found.get("roc"))
    if len(x):
        area = _area("area", scores.get("auc"))
        shapes = [Curve("even", DIAGONAL, DIAGONAL), Curve("s0", x, y)]
        if now and math.isfinite(now.recall + now.fall_out):
            shapes.append(Pointer("roc", now.fall_out, now.recall))
        said = f"ROC: true positive rate over false positive rate{area}"
        planes.append(Plane(f"ROC{area}", said, unit_axis("false positive rate"),
                            unit_axis("true positive rate"), shapes))  # fmt: skip
    return planes


def _area(name: str, value: Any) -> str:
    found = number(value)
    return f" · {name} {digits(found, 3)}" if math.isfinite(found) else ""


def _curves(record: dict[str, Any]) -> dict[str, Any]:
    probability = numbers(details(record).get("dev_probabilities"))
    gold = numbers(details(record).get("dev_gold"))
    usable = len(gold) == len(probability) and np.isfinite(probability).all()
    return {**ranking.curves(gold == 1, probability)} if usable else {}


def _points(value: Any) -> tuple[Array, Array]:
    """x and y of a curve, written as a table or as a list of lists."""
    if isinstance(value, dict):
        value = [value.get("x"), value.get("y")]
    if not isinstance(value, list | tuple) or len(value) < 2:
        return np.empty(0), np.empty(0)
    x, y = numbers(value[0]), numbers(value[1])
    return (x, y) if len(x) == len(y) else (np.empty(0), np.empty(0))


def histogram_plane(record: dict[str, Any], sweep: Sweep) -> Plane:
    """How many rows of each label got which probability."""
    found = details(record)
    probability, gold = numbers(found.get("dev_probabilities")), numbers(found.get("dev_gold"))
    edges = np.linspace(0, 1, BINS + 1)
    counts = [np.histogram(probability[side & np.isfinite(probability)], edges)[0].tolist()
              for side in (gold != 1, gold == 1)]  # fmt: skip
    shapes: list[Shape] = []
    sides = (("s3", sweep.names[0], 0.004), ("s0", sweep.names[1], 0.025))
    for (look, name, shift), sizes in zip(sides, counts, strict=True):
        for left, right, size in zip(edges[:-1].tolist(), edges[1:].tolist(), sizes, strict=True):
            said = f'{size:,} rows of "{name}" between {left:.2f} and {right:.2f}'
            if size:
                bar = left + shift
                shapes.append(Column(look, bar, bar + 0.021, math.sqrt(size), said))
    shapes.append(Pointer("histogram", sweep.stops[sweep.at]))
    # most rows are clear cases: on an even scale nothing else would be seen
    up = _root_axis("rows (square-root scale)", max(1, *counts[0], *counts[1]))
    name = sweep.names[1] if len(sweep.names[1]) <= 20 else f"{sweep.names[1][:20]} …"
    across = unit_axis(f'probability of "{name}"')
    said = f'Rows by their probability of "{sweep.names[1]}", those of each label apart'
    return Plane("Probabilities on dev", said, across, up, shapes)


def _root_axis(title: str, most: int) -> Axis:
    """From 0 to the square root of a count; round counts are marked, as far as they fit."""
    ticks = [(0.0, "0")]
    high = math.sqrt(most)
    for count in (m * 10**power for power in range(9) for m in (1, 2, 5)):
        root = math.sqrt(count)
        if root <= high and root - ticks[-1][0] >= 0.14 * high:
            ticks.append((root, f"{count:,}"))
    return Axis(title, 0.0, high, ticks)


# ------------------------------------------------------------------ others


def calibration_plane(record: dict[str, Any]) -> Plane | None:
    """How often rows were right, over how sure the model was."""
    bins = reliability_of(record)
    if not bins:
        return None
    most = max(rows for _, _, rows in bins) or 1
    table_of = np.array(bins)
    shapes: list[Shape] = [
        Curve("even", DIAGONAL, DIAGONAL),
        Curve("s0 thin", table_of[:, 0], table_of[:, 1]),
    ]
    for sure, right, rows in bins:
        said = f"{whole(rows)} rows: {sure:.1%} sure, {right:.1%} right"
        shapes.append(Dot("s0", sure, right, said, 2.5 + 6.5 * math.sqrt(rows / most)))
    said = "; ".join(
        f"{whole(n)} rows {sure:.0%} sure, {right:.0%} right" for sure, right, n in bins
    )
    return Plane("Calibration", f"How often right over how sure: {said}",
                 unit_axis("how sure the model was"), unit_axis("how often it was right"),
                 shapes)  # fmt: skip


def scatter_plane(record: dict[str, Any]) -> Plane | None:
    """What the model said over what is right."""
    given = details(record).get("scatter")
    pairs = [numbers(one) for one in given] if isinstance(given, list | tuple) else []
    points = np.array([one for one in pairs if len(one) == 2 and np.isfinite(one).all()])
    if not len(points):
        return None
    reach = axis("right", points.ravel())
    even = np.array([reach.low, reach.high])
    shapes: list[Shape] = [Curve("even", even, even), Cloud("points", points[:, 0], points[:, 1])]
    said = f"What the model said over what is right, {len(points):,} rows"
    up = Axis("said", reach.low, reach.high, reach.ticks)
    return Plane("Said over right", said, reach, up, shapes)


def compare_plane(record: dict[str, Any]) -> tuple[Plane, list[str]] | None:
    """Scores of each system over the number of labels, and the systems in the order of colours."""
    rows = [
        one
        for one in tables(table(record.get("compare")).get("rows"))
        if number(one.get("labels")) > 0 and math.isfinite(number(one.get("score")))
    ]
    if not rows:
        return None
    systems = list(dict.fromkeys(shown(one.get("system")) for one in rows))
    sizes = sorted({number(one["labels"]) for one in rows})
    shapes: list[Shape] = []
    seen: list[float] = []
    for place, system in enumerate(systems):
        own = sorted((o for o in rows if shown(o.get("system")) == system),
                     key=lambda o: number(o["labels"]))  # fmt: skip
        x = np.log10([number(one["labels"]) for one in own])
        look = f"s{place % LOOKS}"
        shapes.append(Curve(look, x, numbers([one.get("score") for one in own])))
        for across, one in zip(x.tolist(), own, strict=True):
            score, low, high = (number(one.get(key)) for key in ("score", "low", "high"))
            seen += [score, low, high]
            said = f"{system}, {whole(one['labels'])} labels: {digits(score, 3)}"
            said += f" ({interval(low, high)})" if math.isfinite(low + high) else ""
            shift = 0.006 * (place - (len(systems) - 1) / 2)  # else the intervals hide each other
            reach = math.log10(sizes[-1] / sizes[0]) or 1.0
            shapes.append(Dot(look, across + shift * reach, score, said, 4.0, low, high))
    ends = [math.log10(sizes[0]), math.log10(sizes[-1])]
    pad = 0.06 * (ends[1] - ends[0]) or 0.5
    across_axis = Axis("labelled rows (logarithmic)", ends[0] - pad, ends[1] + pad,
                       [(math.log10(size), f"{size:,.0f}") for size in sizes])  # fmt: skip
    metric = words(metric_of(record) or "score")
    said = "; ".join(shape.words for shape in shapes if isinstance(shape, Dot))
    plane = Plane(f"{metric.capitalize()} by the number of labels", said, across_axis,
                  axis(metric, np.array(seen)), shapes)  # fmt: skip
    return plane, systems
