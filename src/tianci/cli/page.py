"""tianci page"""

from __future__ import annotations

import os

import click

from tianci.cli.command import Run, command


@command(
    "page",
    example="tianci page runs\nTIANCI_API_KEY=... tianci page runs --host 0.0.0.0 --port 8001",
)
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False))
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
    help="what the page asks for first (better: TIANCI_API_KEY, which `ps` does not show)",
)
@click.option(
    "--allow-host", multiple=True, metavar="NAME", help="another name to answer to without a key"
)
def page(
    run: Run,
    folder: str,
    host: str,
    port: int,
    api_key: str | None,
    allow_host: tuple[str, ...],
) -> None:
    """Shows the training runs below DIR in the browser: live curves, settings, reports.

    Needs no model. Listens on this machine only; another --host needs a key.
    """
    from tianci.errors import need

    for module in ("starlette", "uvicorn", "prometheus_client"):
        need(module, "serve")
    from tianci.serve.plan import Plan
    from tianci.serve.run import bind, serve

    plan = Plan(
        runs=folder,
        host=host,
        port=port,
        key=api_key or os.environ.get("TIANCI_API_KEY") or None,
        hosts=tuple(name.lower() for name in allow_host),
        threads=run.threads,
        quiet=run.quiet,
    )
    plan.check()
    at = bind(host, port)
    shown = f"[{host}]" if ":" in host else host
    run.note(f"tianci: http://{shown}:{at.getsockname()[1]}/ shows the runs below {folder}")
    serve(plan, at)
