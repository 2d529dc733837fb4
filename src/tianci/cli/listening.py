"""Options of the commands that answer over HTTP."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

OPTIONS = (
    click.option("--host", default="127.0.0.1", show_default=True, help="address to listen on"),
    click.option(
        "--port",
        type=click.IntRange(0, 65535),
        default=8000,
        show_default=True,
        help="port to listen on (0: any free one)",
    ),
    click.option(
        "--api-key",
        metavar="KEY",
        help="what clients must send as Authorization: Bearer KEY, and what the page asks for "
        "(better: TIANCI_API_KEY, which `ps` does not show)",
    ),
    click.option(
        "--allow-host",
        multiple=True,
        metavar="NAME",
        help="another name to answer to without a key, for example that of a proxy on this machine",
    ),
)


def listening(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command --host, --port, --api-key and --allow-host."""
    for option in reversed(OPTIONS):
        function = option(function)
    return function


def address(
    host: str, port: int, api_key: str | None, allow_host: tuple[str, ...]
) -> dict[str, Any]:
    """The options as a plan knows them."""
    return {
        "host": host,
        "port": port,
        "key": api_key or os.environ.get("TIANCI_API_KEY") or None,
        "hosts": tuple(name.lower() for name in allow_host),
    }
