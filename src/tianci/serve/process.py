"""One server process: uvicorn around a service; SIGTERM ends it behind its work."""

from __future__ import annotations

import functools
import gc
import signal
import socket
from types import FrameType
from typing import Any

import torch
import uvicorn

from tianci.serve.crew import Crew
from tianci.serve.lanes import usual_lanes
from tianci.serve.log import AccessLog, Silence
from tianci.serve.models import Models, read_models
from tianci.serve.plan import LOCAL, Plan
from tianci.serve.runs import Runs
from tianci.serve.server import make_app
from tianci.serve.service import Service
from tianci.serve.wire import Wire


class Server(uvicorn.Server):
    """Uvicorn that ends when the accepted work is done, and then with exit code 0."""

    def __init__(self, config: uvicorn.Config, service: Service):
        super().__init__(config)
        self.service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.service.draining and sig == signal.SIGINT:
            self.force_exit = True  # Ctrl-C twice
        self.service.draining = True

    async def on_tick(self, counter: int) -> bool:
        drained = self.service.draining and not self.service.open
        if drained or self.force_exit or self.service.failed is not None:
            self.should_exit = True
        return await super().on_tick(counter)


def config_of(app: Any) -> uvicorn.Config:
    """How uvicorn is to behave: silent, and without anything that trusts a client."""
    return uvicorn.Config(
        app,
        log_config=None,
        log_level="critical",  # uvicorn would log what clients send
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        # named, or uvicorn takes what it finds installed: this pair is the one that is tested
        http=Wire,
        loop="asyncio",
        timeout_keep_alive=75,  # longer than nginx keeps its side open (60)
        h11_max_incomplete_event_size=65536,
    )


def _load(plan: Plan) -> Models:
    """The models. They and what they are made of stay: looking through all of it for garbage took
    a quarter of the time between the requests."""
    models = read_models(plan.models, engine=plan.engine, int8=plan.int8)
    gc.collect()
    gc.freeze()
    return models


def serve_alone(plan: Plan, at: socket.socket, crew: Crew | None = None) -> None:
    if plan.threads is not None:
        torch.set_num_threads(plan.threads)
    threads = torch.get_num_threads()
    # batches side by side are for processors; a GPU works them off one after the other anyway
    usual = 1 if torch.cuda.is_available() else usual_lanes(threads)
    service = Service(
        functools.partial(_load, plan),
        plan.limits,
        plan.key,
        {*LOCAL, *plan.hosts},
        Silence() if plan.quiet else AccessLog(),
        None if plan.runs is None else Runs(plan.runs),
        plan.lanes or usual,
        threads,
        crew or Crew(),
    )
    Server(config_of(make_app(service)), service).run(sockets=[at])
    if service.failed is not None:
        raise service.failed
