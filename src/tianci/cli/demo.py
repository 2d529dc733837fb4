"""tianci demo"""

from __future__ import annotations

import json

import click

from tianci.cli.command import Run, command


@command("demo", example="tianci demo --out demo --minutes 1")
@click.option(
    "--out", default="demo", show_default=True, metavar="DIR", help="where everything goes"
)
@click.option(
    "--minutes", type=click.FloatRange(0, min_open=True), default=1.0, show_default=True,
    help="how long the model is trained",
)  # fmt: skip
def demo(run: Run, out: str, minutes: float) -> None:
    """Runs the whole story on the demo text (Chinese reviews from the `demo` extra), offline."""
    from pathlib import Path

    from tianci.demo import run_demo

    def say(text: str) -> None:
        if not run.json:
            click.echo(text)

    facts = run_demo(Path(out), minutes, run.seed, run.quiet, say)
    if run.json:
        click.echo(json.dumps(facts, ensure_ascii=False))
