"""tianci doctor"""

from __future__ import annotations

import sys

import click

from tianci.cli.command import Run, command


@command(
    "doctor", example="tianci doctor\ntianci doctor --json\ntianci doctor --engines --preset mini"
)
@click.option(
    "--self-test/--no-self-test", default=True, show_default=True, help="train a tiny model, ..."
)
@click.option("--engines", is_flag=True, help="measure the inference engines instead; a table")
@click.option(
    "--preset", default="bert-base", show_default=True, help="size of model for --engines"
)
def doctor(run: Run, self_test: bool, engines: bool, preset: str) -> None:
    """Says what this machine has, whether tianci works on it, and what is wrong with it.

    The self-test takes about ten seconds: the disk, a new process, the clock, a known text, a known
    forward pass, and a tiny training that is interrupted and resumed. Exit code 1: it failed.
    """
    if engines:
        _engines(run, preset)
        return
    import dataclasses
    from pathlib import Path

    from tqdm import tqdm

    from tianci import __version__
    from tianci.doctor.findings import diagnose
    from tianci.doctor.machine import look
    from tianci.doctor.self_test import COUNT, run_all
    from tianci.doctor.show import report
    from tianci.doctor.torch_facts import ask_torch
    from tianci.doctor.versions import libraries

    machine = look(Path("."))  # before torch: it looks at the neighbours while nothing runs here
    known = libraries()
    with tqdm(total=COUNT + 1, unit="check", delay=2, leave=False, disable=run.quiet) as bar:
        torch = ask_torch()
        bar.update()
        outcomes = []
        for outcome in run_all(Path(".")) if self_test else ():
            outcomes.append(outcome)
            bar.update()
    findings = diagnose(machine, torch, known, outcomes)
    usable = all(one.passed for one in outcomes)
    table = {
        "usable": usable,
        "tianci": __version__,
        "machine": dataclasses.asdict(machine),
        "torch": dataclasses.asdict(torch),
        "libraries": [dataclasses.asdict(one) for one in known],
        "self_test": [dataclasses.asdict(one) for one in outcomes],
        "findings": [dataclasses.asdict(one) for one in findings],
    }
    run.result(table, lambda: report(machine, torch, known, outcomes, findings))
    if not usable:
        sys.exit(1)


def _engines(run: Run, preset: str) -> None:
    """Times of all engines on this machine; takes up to a minute where engines compile."""
    import dataclasses

    from tqdm import tqdm

    from tianci.doctor.engines import measure_engines, table

    bar = tqdm(measure_engines(preset), total=2, delay=2, leave=False, disable=run.quiet)
    measured = list(bar)
    rows = [dataclasses.asdict(row) for part in measured for row in part]
    run.result(rows, lambda: table(preset, measured))
