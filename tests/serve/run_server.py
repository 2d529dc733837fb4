"""Servers for tests of the page: no models but those given, and a directory with runs."""

from __future__ import annotations

from pathlib import Path

from tests.serve.conftest import Live
from tianci.serve.limits import Limits
from tianci.serve.log import Silence
from tianci.serve.models import Models, read_models
from tianci.serve.plan import LOCAL
from tianci.serve.runs import Runs
from tianci.serve.service import Service


def make_service(root: Path | None, *models: str, key: str | None = None) -> Service:
    """A service without models, or with these directories."""
    served = read_models(models, "cpu") if models else Models([])
    shown = None if root is None else Runs(root)
    return Service(lambda: served, Limits(), key, LOCAL, Silence(), shown)


class RunServer(Live):
    """The same, with a directory of runs; may be ended twice."""

    def __init__(self, root: Path, *models: str, key: str | None = None):
        super().__init__(make_service(root, *models, key=key))

    def end(self) -> None:
        if self.thread.is_alive():
            super().end()
