"""Server processes: one, or several that share a socket and a parent that watches them."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from types import FrameType
from typing import Any

import tianci
from tianci.errors import UserError
from tianci.serve.crew import Crew
from tianci.serve.plan import Plan

BACKLOG = 2048
SPIN = "10000"  # about 0.1 ms: threads stay awake during a batch, and sleep between two of them
QUICK, PATIENCE = 30.0, 3  # seconds; so many workers that die sooner than that are enough
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, or one sentence."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # asyncio sends small answers at once (TCP_NODELAY) only where the protocol is named:
        # otherwise the body waits 40 ms for the client's word that the headers arrived
        found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        raise UserError(f"cannot listen on {host}, port {port}: {error}") from error
    return found


def serve(plan: Plan, at: socket.socket) -> None:
    """Serves on a socket until a signal comes."""
    if os.environ.get("GOMP_SPINCOUNT") == tianci.SPIN:  # read when torch is imported
        os.environ["GOMP_SPINCOUNT"] = SPIN
    # or each text wakes threads of the tokenizer, which costs more than reading it; requests are
    # many anyway
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if plan.workers > 1:
        _supervise(plan, at)
    else:
        from tianci.serve.process import serve_alone  # torch and all

        serve_alone(plan, at)


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
    living: list[tuple[Any, float, int]] = []
    loaded = context.RawArray("b", plan.workers)
    quick = 0

    def start(place: int, late: bool = False) -> None:
        crew = Crew(loaded, place, late)
        process = context.Process(target=_work, args=(plan, at, crew), name="tianci-worker")
        process.start()
        living.append((process, time.monotonic(), place))

    try:
        for place in range(plan.workers):
            start(place)
        while not stopped:
            time.sleep(0.1)
            for one, begun, place in list(living):
                if one.is_alive():
                    continue
                living.remove((one, begun, place))
                _forget(one.pid)
                quick = quick + 1 if time.monotonic() - begun < QUICK else 0
                if one.exitcode == 2 or quick >= PATIENCE:
                    raise UserError("the workers do not stay alive; see the messages above")
                print(
                    f"tianci: worker {one.pid} ended ({one.exitcode}); another one starts",
                    file=sys.stderr,
                )
                start(place, late=True)
    finally:
        at.close()  # or a late client would wait for nobody
        for one, *_ in living:
            one.terminate()  # SIGTERM: they finish what they accepted
        for one, *_ in living:
            one.join()
        for sig, handler in old.items():
            signal.signal(sig, handler)
        del os.environ["PROMETHEUS_MULTIPROC_DIR"]
        shutil.rmtree(folder, ignore_errors=True)


def _forget(pid: int) -> None:
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(pid)  # type: ignore[no-untyped-call]


def _work(plan: Plan, at: socket.socket, crew: Crew) -> None:
    """A worker process."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    share = str(max(1, cores // plan.workers))
    os.environ.setdefault("OMP_NUM_THREADS", share)  # read when torch is imported
    try:
        from tianci.serve.process import serve_alone

        serve_alone(plan, at, crew)
    except UserError as error:
        print(f"tianci: {error}", file=sys.stderr)
        sys.exit(2)
