"""tianci serve"""

from __future__ import annotations

import click

from tianci.cli.command import Run, command
from tianci.cli.engines import engines
from tianci.cli.listening import address, listening
from tianci.serve.limits import Limits


@command(
    "serve",
    example="tianci serve runs/hotel\n"
    "tianci serve runs/mini review=runs/hotel --runs runs --port 8001\n"
    "TIANCI_API_KEY=... tianci serve runs/mini --host 0.0.0.0 --workers 4",
    settings={"limits": Limits},
)
@click.argument("models", nargs=-1, required=True, metavar="[NAME=]MODEL...")
@click.option(
    "--runs",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="training runs below this directory may be looked at (curves, reports)",
)
@listening
@click.option(
    "--workers", type=click.IntRange(1), default=1, show_default=True, help="server processes"
)
@click.option(
    "--lanes",
    type=click.IntRange(1),
    help="batches that may run side by side, each with its share of the threads (default: one per "
    "thread, 4 at most)",
)
@engines
def serve(
    run: Run,
    models: tuple[str, ...],
    runs: str | None,
    host: str,
    port: int,
    api_key: str | None,
    allow_host: tuple[str, ...],
    workers: int,
    lanes: int | None,
    engine: str,
    int8: bool,
) -> None:
    """Serves models by HTTP, with the routes of OpenAI and text-embeddings-inference and its own.

    Listens on this machine only; another --host needs a key. /docs lists the routes. SIGTERM and
    Ctrl-C end it when the accepted requests are answered.
    """
    from tianci.serve.plan import Plan, need_server

    need_server()
    from tianci.serve.run import bind, serve

    plan = Plan(
        models=models,
        runs=runs,
        **address(host, port, api_key, allow_host),
        workers=workers,
        lanes=lanes,
        threads=run.threads,
        quiet=run.quiet,
        engine=engine,
        int8=int8,
        limits=run.get(Limits),
    )
    plan.check()
    at = bind(host, port)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{at.getsockname()[1]}/"
    run.note(f"tianci: {url} is the page, {url}docs lists the routes")
    serve(plan, at)
