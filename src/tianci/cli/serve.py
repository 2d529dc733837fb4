"""tianci serve"""

from __future__ import annotations

import os

import click

from tianci.cli.command import Run, command
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
@click.option("--host", default="127.0.0.1", show_default=True, help="address to listen on")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="port to listen on (0: any free one)",
)
@click.option(
    "--api-key",
    metavar="KEY",
    help="what clients must send as Authorization: Bearer KEY (better: TIANCI_API_KEY, which "
    "`ps` does not show)",
)
@click.option(
    "--allow-host",
    multiple=True,
    metavar="NAME",
    help="another name to answer to without a key, for example that of a proxy on this machine",
)
@click.option(
    "--workers", type=click.IntRange(1), default=1, show_default=True, help="server processes"
)
def serve(
    run: Run,
    models: tuple[str, ...],
    runs: str | None,
    host: str,
    port: int,
    api_key: str | None,
    allow_host: tuple[str, ...],
    workers: int,
) -> None:
    """Serves models by HTTP, with the routes of OpenAI and text-embeddings-inference and its own.

    Listens on this machine only; another --host needs a key. /docs lists the routes. SIGTERM and
    Ctrl-C end it when the accepted requests are answered.
    """
    from tianci.errors import need

    for module in ("starlette", "uvicorn", "prometheus_client"):
        need(module, "serve")
    from tianci.serve.plan import Plan
    from tianci.serve.run import bind, serve

    key = api_key or os.environ.get("TIANCI_API_KEY") or None
    plan = Plan(
        models=models,
        runs=runs,
        host=host,
        port=port,
        key=key,
        hosts=tuple(name.lower() for name in allow_host),
        workers=workers,
        threads=run.threads,
        quiet=run.quiet,
        limits=run.get(Limits),
    )
    plan.check()
    at = bind(host, port)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{at.getsockname()[1]}/"
    run.note(f"tianci: {url} is the page, {url}docs lists the routes")
    serve(plan, at)
