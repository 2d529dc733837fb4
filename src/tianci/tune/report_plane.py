"""Pictures with two axes as SVG that stretch to any width, as those of `train.picture`.

Curves are drawn on a square that the page stretches (strokes are not stretched); everything else is
placed in percent, so letters and dots keep their size on a phone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tianci.train.history import Track
from tianci.train.picture import SIDE, multiples, path, tick_step

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Axis:
    """From low to high, with what is written at some places."""

    title: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]

    def share(self, value: float) -> float:
        """Where a value lies, from 0 to 1."""
        return (value - self.low) / (self.high - self.low)


def axis(title: str, values: Array, about: int = 5) -> Axis:
    """An axis with round ends around the values."""
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        pad = abs(low) / 10 or 1.0
        low, high = low - pad, high + pad
    step = tick_step(low, high, about)
    marks = multiples(step, math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9))
    return Axis(title, marks[0], marks[-1], [(mark, f"{mark:g}") for mark in marks])


def unit_axis(title: str) -> Axis:
    """From 0 to 1."""
    return Axis(title, 0.0, 1.0, [(n / 5, f"{n / 5:g}") for n in range(6)])


class Shape(Protocol):
    """Something on a plane; `stretched` goes onto the square, `placed` on top of it."""

    def stretched(self, plane: Plane) -> str: ...

    def placed(self, plane: Plane) -> str: ...


@dataclass(frozen=True)
class Plane:
    """All that one picture shows; `words` say it to those who cannot see it."""

    title: str
    words: str
    across: Axis
    up: Axis
    shapes: Sequence[Shape]

    def x(self, value: float) -> str:
        return f"{100 * self.across.share(value):.4g}%"

    def y(self, value: float) -> str:
        return f"{100 * (1 - self.up.share(value)):.4g}%"


@dataclass(frozen=True)
class Curve:
    """A line through points; it breaks where a value is missing."""

    look: str
    x: Array
    y: Array

    def stretched(self, plane: Plane) -> str:
        width = plane.across.high - plane.across.low
        track = Track(self.x - plane.across.low, self.y)
        return f'<path class="{self.look}" d="{path(track, width, plane.up.low, plane.up.high)}"/>'

    def placed(self, plane: Plane) -> str:
        return ""


@dataclass(frozen=True)
class Cloud:
    """Many points without a line, as one element."""

    look: str
    x: Array
    y: Array

    def stretched(self, plane: Plane) -> str:
        known = np.isfinite(self.x + self.y)
        across = SIDE * (self.x[known] - plane.across.low) / (plane.across.high - plane.across.low)
        down = SIDE * (plane.up.high - self.y[known]) / (plane.up.high - plane.up.low)
        points = zip(across.tolist(), down.tolist(), strict=True)
        return (
            f'<path class="{self.look}" d="{"".join(f"M{a:.0f},{b:.0f}h0" for a, b in points)}"/>'
        )

    def placed(self, plane: Plane) -> str:
        return ""


@dataclass(frozen=True)
class Dot:
    """One point, perhaps with a line from low to high, and what it says when pointed at."""

    look: str
    x: float
    y: float
    words: str
    size: float = 4.0
    low: float = math.nan
    high: float = math.nan

    def stretched(self, plane: Plane) -> str:
        return ""

    def placed(self, plane: Plane) -> str:
        if not math.isfinite(self.x + self.y):
            return ""
        x, line = plane.x(self.x), ""
        if math.isfinite(self.low + self.high):
            ends = f'y1="{plane.y(self.low)}" y2="{plane.y(self.high)}"'
            line = f'<line class="{self.look}" x1="{x}" x2="{x}" {ends}/>'
        circle = f'<circle cx="{x}" cy="{plane.y(self.y)}" r="{self.size:.3g}"/>'
        return f'<g class="{self.look}"><title>{escape(self.words)}</title>{line}{circle}</g>'


@dataclass(frozen=True)
class Column:
    """A bar from the bottom up to y, from x to right."""

    look: str
    x: float
    right: float
    y: float
    words: str

    def stretched(self, plane: Plane) -> str:
        return ""

    def placed(self, plane: Plane) -> str:
        wide = 100 * (self.right - self.x) / (plane.across.high - plane.across.low)
        tall = 100 * plane.up.share(self.y)
        place = f'x="{plane.x(self.x)}" y="{plane.y(self.y)}"'
        size = f'width="{wide:.4g}%" height="{tall:.4g}%"'
        return (
            f'<rect class="{self.look}" {place} {size}><title>{escape(self.words)}</title></rect>'
        )


@dataclass(frozen=True)
class Pointer:
    """The point, or without y the upright line, that follows the threshold; `key` is for the
    script."""

    key: str
    x: float
    y: float = math.nan

    def stretched(self, plane: Plane) -> str:
        return ""

    def placed(self, plane: Plane) -> str:
        x = plane.x(self.x)
        if math.isfinite(self.y):
            place = f'cx="{x}" cy="{plane.y(self.y)}"'
            return f'<circle class="now" data-now="{self.key}" {place} r="6"/>'
        return f'<line class="now" data-now="{self.key}" x1="{x}" x2="{x}" y1="0" y2="100%"/>'


def draw_plane(plane: Plane) -> str:
    """The plane as an SVG element; its title and its legend belong to the page."""
    parts = [f'<svg class="chart" role="img" aria-label="{escape(plane.words)}">']
    for value, text in plane.up.ticks:
        y = plane.y(value)
        parts.append(f'<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/>'
                     f'<text x="0" y="{y}" dx="-8" dy=".32em" text-anchor="end">{escape(text)}'
                     "</text>")  # fmt: skip
    for value, text in plane.across.ticks:
        x = plane.x(value)
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="100%"/>'
                     f'<text x="{x}" y="100%" dy="18" text-anchor="middle">{escape(text)}'
                     "</text>")  # fmt: skip
    parts.append('<text class="title" x="50%" y="100%" dy="36" text-anchor="middle">'
                 f"{escape(plane.across.title)}</text>")  # fmt: skip
    parts.append(f'<svg viewBox="0 0 {SIDE} {SIDE}" preserveAspectRatio="none" '
                 'width="100%" height="100%">')  # fmt: skip
    parts += [shape.stretched(plane) for shape in plane.shapes]
    parts.append("</svg>")
    parts += [shape.placed(plane) for shape in plane.shapes]
    return "".join([*parts, "</svg>"])
