"""Two servers behind Debian's nginx, with the configuration that docs/serving.md shows; one of them
is killed, or ended, under load, and no client sees it."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")

from benchmarks.http_load import Connection, Load, closed_loop, request

from tests.conftest import ROOT
from tests.serve.conftest import wait

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")


def documented(ports: list[int], listen: int) -> str:
    """The configuration of the docs; ports, and TLS, which needs a certificate, are ours."""
    page = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    found = re.search(r"### nginx\n.*?```nginx\n(.*?)```", page, re.DOTALL)
    assert found
    text = found[1]
    for old, new in (
        ("127.0.0.1:8001", f"127.0.0.1:{ports[0]}"),
        ("127.0.0.1:8002", f"127.0.0.1:{ports[1]}"),
        ("listen 443 ssl;", f"listen 127.0.0.1:{listen};"),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return re.sub(r"\n *ssl_certificate.*", "", text)


@contextmanager
def nginx(folder: Path, servers: str) -> Iterator[None]:
    (folder / "nginx.conf").write_text(
        "worker_processes 1; daemon off; error_log stderr error;\n"
        f"pid {folder}/pid; events {{ worker_connections 512; }}\n"
        f"http {{ access_log off;\n"
        + "".join(
            f"{kind}_temp_path {folder}/{kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        + servers
        + "}\n"
    )
    process = subprocess.Popen(
        [str(NGINX), "-p", str(folder), "-c", str(folder / "nginx.conf")],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
    finally:
        process.send_signal(signal.SIGQUIT)
        process.wait(20)


def free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in held]
    for one in held:
        one.close()
    return ports


def answers(port: int, path: str = "/ready") -> bool:
    message = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    return asyncio.run(Connection(port).ask(message))[0] == 200


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_that_goes_is_not_noticed(
    folders: dict[str, Path], tmp_path: Path, how: signal.Signals
) -> None:
    *ports, listen = free_ports(3)
    command = [sys.executable, "-m", "tianci", "serve", str(folders["base"]), "--quiet", "--port"]
    servers = [
        subprocess.Popen([*command, str(port)], env={**os.environ, "OMP_NUM_THREADS": "1"})
        for port in ports
    ]
    try:
        for port in ports:
            wait(lambda port=port: answers(port), 300)  # type: ignore[misc]
        with nginx(tmp_path, documented(ports, listen)):
            wait(lambda: answers(listen), 60)
            load = asyncio.run(gone_meanwhile(listen, servers[0], how))
            assert servers[0].wait(60) == (-how if how == signal.SIGKILL else 0)
            last = max(sent for sent, _, _ in load.answers)
            assert len(load.answers) > 100 and load.statuses == {200: len(load.answers)}
            assert last > 1.5  # it went on long after the death
            # the docs keep the numbers to themselves
            said = asyncio.run(Connection(listen).ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"))
            assert said[0] == 403
    finally:
        for one in servers:
            if one.poll() is None:
                one.terminate()
            one.wait(120)


async def gone_meanwhile(port: int, one: subprocess.Popen[bytes], how: signal.Signals) -> Load:
    """Eight clients for some seconds; after one of these a server gets the signal."""
    messages = itertools.cycle(
        [request("/embed", {"inputs": ["今天天气不错" * n]}) for n in (1, 2, 5)]
        + [request("/fill", {"inputs": "天[MASK]"}), request("/score", {"inputs": "今天"})]
    )
    load = asyncio.create_task(closed_loop(port, messages, 8, 4))
    await asyncio.sleep(1)
    one.send_signal(how)
    began = time.monotonic()
    found = await load
    assert time.monotonic() - began > 1
    return found
