"""What was found, for people: a table of the splits, then the faults, the most serious first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tianci.data.rows import Row
from tianci.evaluate.check import Report
from tianci.evaluate.check.content import named
from tianci.evaluate.check.finding import EXAMPLES, SEVERITIES, Group, grouped

CLASSES = 6  # counted one by one in the table


def table(report: Report, examples: int = EXAMPLES) -> str:
    """The whole text."""
    blocks = [_splits(report)]
    blocks += [_group(group, report, examples) for group in grouped(report.findings)]
    return "\n\n".join([*blocks, _verdict(report)])


def _splits(report: Report) -> str:
    lines = []
    for name, rows in report.splits.items():
        files = ", ".join(dict.fromkeys(row.file for row in rows))
        lines.append(f"{name:<6}{len(rows):>9,} rows  {_labels(rows)}{files}")
    return "\n".join(lines)


def _labels(rows: Sequence[Row]) -> str:
    """How many rows have each label, where labels are few."""
    labels = Counter(
        label for row in rows if isinstance(label := row.values.get("label"), str) and label
    )
    if not labels or len(labels) > CLASSES:
        return f"{len(labels)} labels  " if labels else ""
    shares = [f"{named(label)} {count:,}" for label, count in sorted(labels.items())]
    return "  ".join(shares) + "  "


def _group(group: Group, report: Report, examples: int) -> str:
    count, rows = len(group.places), len(report.splits.get(group.split, ()))
    different = f", {group.texts:,} different texts" if group.texts != count else ""
    share = f" of {rows:,}" if rows and count > 1 else ""
    lines = [f"{group.severity:<9}{group.fault}: {count:,}{share} in {group.split}{different}"]
    for place in group.places[:examples]:
        where = f", {place.unit} {place.line}" if place.line else ""
        said = f": {place.detail}" if place.detail else ""
        lines.append(f"         {Path(place.file).name}{where}{said}")
    if count > examples:
        lines.append(f"         and {count - examples:,} more (--json lists all)")
    lines.append(f"         -> {group.places[0].advice}")
    return "\n".join(lines)


def _verdict(report: Report) -> str:
    counts = Counter(group.severity for group in grouped(report.findings))
    if not counts:
        return "no faults found"
    verdict = ", ".join(f"{counts[name]} x {name}" for name in SEVERITIES if counts[name])
    if counts["stops"]:
        verdict += "; results would mean nothing: tianci finetune refuses these data"
    return verdict
