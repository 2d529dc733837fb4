"""Which inference engine is fastest here: a table for one size of model, float32 and int8."""

from __future__ import annotations

from collections.abc import Iterator

from tianci.engine.choice import CASES, Row, Sizes, choose, measure
from tianci.models import preset


def measure_engines(name: str) -> Iterator[list[Row]]:
    """The rows of all engines for the sizes of a preset, first in float32, then in int8."""
    _, config = preset(name)
    sizes = Sizes(config.width, config.heads, config.hidden, config.activation)
    for int8 in (False, True):
        yield measure(sizes, int8)


def table(name: str, measured: list[list[Row]]) -> str:
    """For people: milliseconds of two blocks of that size, and which engine is taken."""
    lines = [f"two blocks of {name}, milliseconds", ""]
    cases = "".join(f"{case:>12}" for case in CASES)
    lines.append(f"{'engine':<18}{cases}{'x torch':>10}  compared with the modules")
    for rows in measured:
        best = choose(rows)
        for row in rows:
            kind = f"{row.engine}{' int8' if row.int8 else ''}"
            times = "".join(
                f"{row.milliseconds[case]:12.2f}" if case in row.milliseconds else f"{'-':>12}"
                for case in CASES
            )
            mark = "* " if row.engine == best else "  "
            lines.append(f"{mark}{kind:<16}{times}{row.speed:>10.2f}  {row.note}")
    return "\n".join([*lines, "", "* is taken by --engine auto, unless told otherwise"])
