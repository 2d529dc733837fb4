"""tianci demo"""

from __future__ import annotations

import json
import sys

import click

from tianci.cli.command import Run, command


@command("demo", example="tianci demo --out demo --minutes 1\ntianci demo --no-serve")
@click.option(
    "--out", default="demo", show_default=True, metavar="DIR", help="where everything goes"
)
@click.option(
    "--minutes", type=click.FloatRange(0, min_open=True), default=1.0, show_default=True,
    help="how long the model is trained",
)  # fmt: skip
@click.option(
    "--serve/--no-serve", default=None, help="serve the model at the end  [default: without --json]"
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True,
    help="port to serve on (if it is taken, any free one)",
)  # fmt: skip
def demo(run: Run, out: str, minutes: float, serve: bool | None, port: int) -> None:
    """Runs the whole story on the demo text (Chinese reviews from the `demo` extra), offline.

    It ends by serving the model on this machine, until Ctrl-C.
    """
    from pathlib import Path

    from tianci.demo import run_demo, serve_demo

    def say(text: str) -> None:
        if not run.json:
            click.echo(text)
            sys.stdout.flush()  # the address must be seen, also through a pipe

    facts = run_demo(Path(out), minutes, run.seed, run.quiet, say)
    if run.json:
        click.echo(json.dumps(facts, ensure_ascii=False))
    if serve or (serve is None and not run.json):
        serve_demo(facts["out"], port, say)
