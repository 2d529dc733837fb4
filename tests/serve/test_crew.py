"""Workers that share a port: ready together, never one alone."""

from __future__ import annotations

from collections.abc import Callable

from tests.serve.conftest import Running
from tianci.serve.crew import Crew


def test_a_worker_is_ready_when_all_have_loaded(running: Callable[..., Running]) -> None:
    server, loaded = running("base"), [0, 0]
    server.service.crew = Crew(loaded, 1)
    assert "loading" in server.client.get("/ready").json()["error"]
    Crew(loaded, 0).tell()
    assert server.client.get("/ready").status_code == 503
    server.service.crew.tell()
    assert loaded == [1, 1] and server.client.get("/ready").status_code == 200
