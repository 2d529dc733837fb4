"""Server processes: one, or several behind one socket; SIGTERM ends them behind their work."""

from __future__ import annotations

import functools
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import uvicorn

from tianci.errors import UserError
from tianci.serve.limits import Limits
from tianci.serve.log import AccessLog, Silence
from tianci.serve.models import named, read_models
from tianci.serve.server import make_app
from tianci.serve.service import LOCAL, Service, check_key

BACKLOG = 2048
QUICK, PATIENCE = 30.0, 3  # seconds; so many workers that die sooner than that are enough
SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True)
class Plan:
    """What to serve, and how."""

    models: Sequence[str]
    host: str = "127.0.0.1"
    port: int = 8000
    key: str | None = None
    hosts: tuple[str, ...] = ()  # more names to answer to without a key
    workers: int = 1
    threads: int | None = None  # of each worker
    quiet: bool = False
    limits: Limits = field(default_factory=Limits)

    def check(self) -> None:
        """Refuses what cannot work, before anything is loaded."""
        check_key(self.host, self.key)
        for _, folder in named(self.models):
            if not folder.is_dir():
                raise UserError(f"{folder} is not a model directory")


class Server(uvicorn.Server):
    """Uvicorn that ends when the accepted work is done, and then with exit code 0."""

    def __init__(self, config: uvicorn.Config, service: Service):
        super().__init__(config)
        self.service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.service.draining:
            self.force_exit = True  # asked twice
        self.service.draining = True

    async def on_tick(self, counter: int) -> bool:
        drained = self.service.draining and not self.service.open
        if drained or self.force_exit or self.service.failed is not None:
            self.should_exit = True
        return await super().on_tick(counter)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, or one sentence."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        raise UserError(f"cannot listen on {host}, port {port}: {error}") from error
    return found


def serve(plan: Plan, at: socket.socket) -> None:
    """Serves on a socket until a signal comes."""
    if plan.workers > 1:
        _supervise(plan, at)
    else:
        _serve_alone(plan, at)


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
        timeout_keep_alive=75,  # longer than nginx keeps its side open (60)
        h11_max_incomplete_event_size=65536,
    )


def _serve_alone(plan: Plan, at: socket.socket) -> None:
    if plan.threads is not None:
        import torch

        torch.set_num_threads(plan.threads)
    service = Service(
        functools.partial(read_models, plan.models),
        plan.limits,
        plan.key,
        {*LOCAL, *plan.hosts},
        Silence() if plan.quiet else AccessLog(),
    )
    Server(config_of(make_app(service)), service).run(sockets=[at])
    if service.failed is not None:
        raise service.failed


# ---------------------------------------------------------------- several processes


def _supervise(plan: Plan, at: socket.socket) -> None:
    """Starts the workers, replaces those that die, and passes signals on."""
    folder = tempfile.mkdtemp(prefix="tianci-metrics-")
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder  # before a worker imports prometheus_client
    context = multiprocessing.get_context("spawn")
    stopped = False

    def stop(sig: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True

    old = {sig: signal.signal(sig, stop) for sig in SIGNALS}
    living: list[tuple[Any, float]] = []
    quick = 0

    def start() -> None:
        process = context.Process(target=_work, args=(plan, at), name="tianci-worker")
        process.start()
        living.append((process, time.monotonic()))

    try:
        for _ in range(plan.workers):
            start()
        while not stopped:
            time.sleep(0.1)
            for one, begun in list(living):
                if one.is_alive():
                    continue
                living.remove((one, begun))
                _forget(one.pid)
                quick = quick + 1 if time.monotonic() - begun < QUICK else 0
                if one.exitcode == 2 or quick >= PATIENCE:
                    raise UserError("the workers do not stay alive; see the messages above")
                start()
    finally:
        at.close()  # or a late client would wait for nobody
        for one, _ in living:
            one.terminate()  # SIGTERM: they finish what they accepted
        for one, _ in living:
            one.join()
        for sig, handler in old.items():
            signal.signal(sig, handler)
        del os.environ["PROMETHEUS_MULTIPROC_DIR"]
        shutil.rmtree(folder, ignore_errors=True)


def _forget(pid: int) -> None:
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(pid)  # type: ignore[no-untyped-call]


def _work(plan: Plan, at: socket.socket) -> None:
    """A worker process."""
    try:
        _serve_alone(plan, at)
    except UserError as error:
        print(f"tianci: {error}", file=sys.stderr)
        sys.exit(2)
