"""tianci verify"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tianci.cli.command import Run, command

if TYPE_CHECKING:
    from tianci.verify import Report

SHOWN = 20  # damaged files of one directory


@command("verify", example="tianci verify runs/mini\ntianci verify corpus --json")
@click.argument("directory")
def verify(run: Run, directory: str) -> None:
    """Checks that nothing in DIRECTORY is damaged, missing or foreign: a checkpoint, a run with all
    its checkpoints, a model, an adapter, an export bundle, a tokenizer or a token store.

    Every file is read and compared with the sha256 that was written down for it. Exit code 0 when
    all is whole, 1 when not.
    """
    from tianci.verify import verify as look

    reports = look(directory)
    bad = [
        {"directory": report.place, "file": fault.file, "fault": fault.fault}
        for report in reports
        for fault in report.bad
    ]
    result = {"ok": not bad, "bad": bad, "checked": [report.as_table() for report in reports]}
    run.result(result, lambda: "\n".join(line for report in reports for line in _lines(report)))
    if bad:
        click.get_current_context().exit(1)


def _lines(report: Report) -> list[str]:
    """One line for a directory, one for each damaged file, one for what could not be checked."""
    verdict = f"{len(report.bad)} bad" if report.bad else "ok"
    size = f"{report.files:,} files, {report.bytes:,} bytes"
    lines = [f"{verdict:<8}{report.kind:<12}{size:<34}{report.place}"]
    lines += [f"  {fault}" for fault in report.bad[:SHOWN]]
    if len(report.bad) > SHOWN:
        lines.append(f"  and {len(report.bad) - SHOWN:,} more")
    return [*lines, f"  ({report.note})"] if report.note else lines
