"""What to serve, for whom: checked before anything heavy is imported or loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tianci.errors import UserError, need
from tianci.serve.limits import Limits

LOCAL = ("localhost", "127.0.0.1", "::1")


def need_server() -> None:
    """Refuses where the `serve` extra is not installed."""
    for module in ("starlette", "uvicorn", "prometheus_client"):
        need(module, "serve")


@dataclass(frozen=True)
class Plan:
    """What to serve, and how."""

    models: Sequence[str] = ()
    runs: str | None = None  # a directory with training runs to show
    host: str = "127.0.0.1"
    port: int = 8000
    key: str | None = None
    hosts: tuple[str, ...] = ()  # more names to answer to without a key
    workers: int = 1
    threads: int | None = None  # of each worker
    lanes: int | None = None  # batches of a worker that may run side by side
    quiet: bool = False
    engine: str = "torch"
    int8: bool = False
    limits: Limits = field(default_factory=Limits)

    def check(self) -> None:
        """Refuses what cannot work, before anything is loaded."""
        check_key(self.host, self.key)
        if self.runs is not None and not Path(self.runs).is_dir():
            raise UserError(f"{self.runs} is not a directory; give one with runs in it")
        for _, folder in named(self.models):
            if not folder.is_dir():
                raise UserError(f"{folder} is not a model directory")


def check_key(host: str, key: str | None) -> None:
    """Refuses to be reachable from elsewhere without a key."""
    if key is not None and (len(key) < 8 or not key.isascii() or not key.isprintable()):
        raise UserError("the API key must have at least 8 characters, all of them ASCII")
    if host not in LOCAL and key is None:
        raise UserError(
            f"--host {host} makes the server reachable from elsewhere, so it needs a key: "
            "--api-key KEY, or TIANCI_API_KEY"
        )


def named(specs: Sequence[str]) -> list[tuple[str, Path]]:
    """NAME=DIR or DIR (named after its last part) as names and folders, none twice."""
    found: list[tuple[str, Path]] = []
    for spec in specs:
        name, equals, folder = spec.partition("=")
        if not equals or Path(spec).exists():
            name, folder = Path(spec).resolve().name, spec
        if not name or not folder:
            raise UserError(f'"{spec}" is neither DIR nor NAME=DIR')
        if name in (known for known, _ in found):
            raise UserError(f'two models are named "{name}"; give one another name: NAME=DIR')
        found.append((name, Path(folder)))
    return found
