"""Line charts as SVG that stretch to any width.

Curves are drawn on a square of `SIDE` units that the page stretches (strokes are not stretched);
texts, dots and grid lines are placed in percent, so letters keep their size on a phone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np

from tianci.train.history import Array, Track

SIDE = 1000
BADGE = 0.055  # share of the width that a numbered badge needs on a phone
DOTS = 60  # more held-out points than this are drawn as a line only


@dataclass(frozen=True)
class Line:
    """A curve. `look` is its class in the style sheet: raw, train or held."""

    name: str
    look: str
    track: Track


@dataclass(frozen=True)
class Level:
    """A dashed line across, with its name."""

    name: str
    value: float


@dataclass(frozen=True)
class Mark:
    """An event on the step axis, with its number in the list of events."""

    kind: str
    step: float
    number: int
    text: str


@dataclass(frozen=True)
class Chart:
    """All that one picture shows."""

    title: str
    unit: str
    lines: Sequence[Line]
    end: float  # the last step: all charts of a page share one axis
    levels: Sequence[Level] = ()
    marks: Sequence[Mark] = ()
    from_zero: bool = False
    tall: bool = False
    axis: Callable[[float], str] = field(default="{:g}".format)
    reading: Callable[[float], str] = field(default="{:.3f}".format)

    def ticks(self) -> list[float]:
        """Round values up the side; the first and the last are the borders of the picture."""
        drawn = [_middle(line) for line in self.lines]
        values = np.concatenate([*drawn, [level.value for level in self.levels]])
        values = values[np.isfinite(values)]
        low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
        if self.from_zero:
            low = min(0.0, low)
        if high - low <= 1e-9 * max(abs(low), abs(high)):
            pad = abs(low) / 10 or 1.0
            low, high = low - pad, high + pad
        step = tick_step(low, high, 5 if self.tall else 4)
        # a hair of tolerance: 0.3 / 0.1 is a little less than 3
        return multiples(step, math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9))

    def range(self) -> tuple[float, float]:
        marks = self.ticks()
        return marks[0], marks[-1]

    def name_below(self, level: Level) -> bool:
        """Whether the name of a level stands below its line, out of the way of curves and names."""
        low, high = self.range()
        nearest = sorted(self.levels, key=lambda other: abs(other.value - level.value))[1:2]
        if (level.value - low) / (high - low) < 0.08:
            return False  # there the axis has its labels
        if nearest and 0 <= (nearest[0].value - level.value) / (high - low) < 0.08:
            return True
        ends = [line.track for line in self.lines if line.look != "raw"]
        late = np.concatenate([t.value[t.step > 0.75 * self.end] for t in ends])
        late = late[np.isfinite(late)]
        above = (float(late.mean()) - level.value) / (high - low) if len(late) else 0.0
        return 0 < above < 0.15

    def beyond(self) -> float:
        """The highest value that does not fit into the picture, or NaN."""
        values = np.concatenate([line.track.value for line in self.lines])
        values = values[np.isfinite(values)]
        top = float(values.max()) if len(values) else math.nan
        return top if top > self.range()[1] else math.nan


def _middle(line: Line) -> Array:
    """The values that decide on the height of a picture: of a noisy curve without its extremes."""
    values = line.track.value[np.isfinite(line.track.value)]
    if line.look != "raw" or len(values) < 20:
        return values
    return np.quantile(values, [0.01, 0.99])


def tick_step(low: float, high: float, about: int) -> float:
    """A distance of 1, 2 or 5 times a power of ten that gives about so many ticks."""
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    return next((m * power for m in (1, 2, 5) if m * power >= rough * 0.999), 10 * power)


def multiples(step: float, first: int, last: int) -> list[float]:
    """From the first to the last multiple, without the dust of binary fractions."""
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def compact(value: float) -> str:
    """1500 as 1.5k."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def percent(value: float) -> str:
    return f"{100 * value:.4g}%"


def path(track: Track, end: float, low: float, high: float) -> str:
    """The curve as SVG path data; it breaks where values are missing, a lone point is a dot."""
    pieces: list[str] = []
    run: list[str] = []
    x = (SIDE * track.step / end).tolist()
    y = (SIDE * (high - track.value) / (high - low)).tolist()
    for across, down in [*zip(x, y, strict=True), (math.nan, math.nan)]:
        if math.isfinite(down):
            run.append(f"{_short(across)},{_short(down)}")
        elif run:
            pieces.append("M" + "L".join(run) + ("h0" if len(run) == 1 else ""))
            run = []
    return "".join(pieces)


def _short(value: float) -> str:
    return f"{max(-9e6, min(9e6, value)):.1f}".removesuffix(".0")


def draw(chart: Chart) -> str:
    """The chart as an SVG element without outer labels: title and legend belong to the page."""
    low, high = chart.range()
    end = chart.end or 1.0

    def across(step: float) -> str:
        return f"{100 * step / end:.4g}%"

    def down(value: float) -> str:
        return f"{100 * (high - value) / (high - low):.4g}%"

    parts = [f'<svg class="chart" role="img" aria-label="{escape(describe(chart))}">']
    for value in chart.ticks():
        y = down(value)
        parts.append(f'<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="tick" x="0" y="{y}" dx="-8" dy=".32em" text-anchor="end">'
                     f"{chart.axis(value)}</text>")  # fmt: skip
    step = tick_step(0, end, 7)
    for value in multiples(step, 0, math.floor(end / step + 1e-9)):
        parts.append(f'<text class="tick" x="{across(value)}" y="100%" dy="18" '
                     f'text-anchor="middle">{compact(value)}</text>')  # fmt: skip
    parts.append('<text class="tick" x="0" y="100%" dx="-8" dy="18" text-anchor="end">step</text>')
    for mark in chart.marks:
        x = across(mark.step)
        parts.append(f'<line class="mark {mark.kind}" x1="{x}" x2="{x}" y1="0" y2="100%"/>')
    parts.append(f'<svg viewBox="0 0 {SIDE} {SIDE}" preserveAspectRatio="none" '
                 'width="100%" height="100%">')  # fmt: skip
    for line in chart.lines:
        data = path(line.track, end, low, high)
        if data:
            parts.append(f'<path class="{line.look}" d="{data}"/>')
    parts.append("</svg>")
    for line in chart.lines:
        if line.look == "held" and len(line.track.step) <= DOTS:
            parts += [
                f'<circle class="held" cx="{across(s)}" cy="{down(v)}" r="3.2"/>'
                for s, v in zip(line.track.step.tolist(), line.track.value.tolist(), strict=True)
                if math.isfinite(v)
            ]
    for level in chart.levels:
        y = down(level.value)
        parts.append(f'<line class="level" x1="0" x2="100%" y1="{y}" y2="{y}"/>')
        shift = 14 if chart.name_below(level) else -6
        parts.append(f'<text class="level" x="100%" y="{y}" dy="{shift}" text-anchor="end">'
                     f"{escape(level.name)}</text>")  # fmt: skip
    if chart.tall:
        parts += _badges(chart.marks, end)
    return "".join([*parts, "</svg>"])


def _badges(marks: Sequence[Mark], end: float) -> list[str]:
    parts: list[str] = []
    free = -1.0
    for mark in marks:
        at = mark.step / end
        numbered = at >= free  # else it would cover the badge before it
        free = at + BADGE if numbered else free
        x = f"{100 * at:.4g}%"
        words = f"{mark.number}. {mark.kind} at step {mark.step:,.0f}: {mark.text}"
        parts.append(f'<g class="badge {mark.kind}"><title>{escape(words)}</title>'
                     f'<circle cx="{x}" cy="-11" r="{8.5 if numbered else 3}"/>')  # fmt: skip
        if numbered:
            place = f'x="{x}" y="-11" dy=".35em" text-anchor="middle"'
            parts.append(f"<text {place}>{mark.number}</text>")
        parts.append("</g>")
    return parts


def describe(chart: Chart) -> str:
    """The picture in words, for those who cannot see it."""
    said = []
    for line in chart.lines:
        known = line.track.value[np.isfinite(line.track.value)]
        if line.look != "raw" and len(known):
            first, last = chart.reading(float(known[0])), chart.reading(float(known[-1]))
            said.append(f"{line.name} from {first} to {last}".strip())
    said += [level.name for level in chart.levels]
    return f"{chart.title} over {chart.end:,.0f} steps: {', '.join(said) or 'no values'}"
