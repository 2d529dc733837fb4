"""tianci page"""

from __future__ import annotations

import click

from tianci.cli.command import Run, command
from tianci.cli.listening import address, listening


@command(
    "page",
    example="tianci page runs\nTIANCI_API_KEY=... tianci page runs --host 0.0.0.0 --port 8001",
)
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False))
@listening
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
    from tianci.serve.plan import Plan, need_server

    need_server()
    from tianci.serve.run import bind, serve

    plan = Plan(
        runs=folder,
        **address(host, port, api_key, allow_host),
        threads=run.threads,
        quiet=run.quiet,
    )
    plan.check()
    at = bind(host, port)
    shown = f"[{host}]" if ":" in host else host
    run.note(f"tianci: http://{shown}:{at.getsockname()[1]}/ shows the runs below {folder}")
    serve(plan, at)
