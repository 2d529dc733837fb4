"""Servers for tests of the page: no models but those given, and a directory with runs."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

from tests.serve.conftest import wait
from tianci.serve.limits import Limits
from tianci.serve.log import Silence
from tianci.serve.models import Models, read_models
from tianci.serve.plan import LOCAL
from tianci.serve.process import Server, config_of
from tianci.serve.run import bind
from tianci.serve.runs import Runs
from tianci.serve.server import make_app
from tianci.serve.service import Service


def make_service(root: Path | None, *models: str, key: str | None = None) -> Service:
    """A service without models, or with these directories."""
    served = read_models(models, "cpu") if models else Models([])
    shown = None if root is None else Runs(root)
    return Service(lambda: served, Limits(), key, LOCAL, Silence(), shown)


class RunServer:
    """A server in a thread of this process."""

    def __init__(self, root: Path, *models: str, key: str | None = None):
        self.service = make_service(root, *models, key=key)
        self.server = Server(config_of(make_app(self.service)), self.service)
        at = bind("127.0.0.1", 0)
        self.port = at.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [at]})
        self.thread.start()
        wait(lambda: self.service.ready and self.server.started)

    def end(self) -> None:
        if self.thread.is_alive():
            self.server.handle_exit(signal.SIGTERM, None)
            self.thread.join(20)
            assert not self.thread.is_alive()
