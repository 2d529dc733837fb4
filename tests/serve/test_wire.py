"""Answers leave in one piece, and in the right order."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.server import ServerState

from tianci.serve.process import config_of
from tianci.serve.wire import SOON, Joined, Wire


class Recorded:
    """A transport that only notes what is done to it."""

    def __init__(self) -> None:
        self.done: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.done.append(data)

    def close(self) -> None:
        self.done.append(b"closed")

    def is_closing(self) -> bool:
        return b"closed" in self.done

    def get_extra_info(self, name: str) -> None:
        return None

    def pause_reading(self) -> None: ...

    resume_reading = pause_reading


async def _app(scope: Any, receive: Any, send: Any) -> None:
    headers = [(b"content-length", b"5")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if scope["path"] == "/slow":
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await send({"type": "http.response.body", "body": b"hello"})


def _asked(path: str) -> list[bytes]:
    """What is written for one request."""

    async def ask() -> list[bytes]:
        config = config_of(_app)
        config.load()
        assert config.http_protocol_class is Wire
        wire, transport = Wire(config, ServerState(), {}), Recorded()
        wire.connection_made(transport)  # type: ignore[arg-type]
        wire.data_received(f"GET {path} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
        for _ in range(8):
            await asyncio.sleep(0)
        wire._unset_keepalive_if_required()
        return transport.done

    return asyncio.run(ask())


def test_head_and_body_leave_together() -> None:
    (whole,) = _asked("/")
    assert whole.startswith(b"HTTP/1.1 200") and whole.endswith(b"\r\n\r\nhello")


def test_a_head_does_not_wait_for_a_late_body() -> None:
    head, body = _asked("/slow")
    assert head.startswith(b"HTTP/1.1 200") and head.endswith(b"\r\n\r\n") and body == b"hello"


def test_much_is_sent_at_once_and_closing_loses_nothing() -> None:
    async def write() -> list[bytes]:
        transport = Recorded()
        joined = Joined(transport, asyncio.get_running_loop())  # type: ignore[arg-type]
        joined.write(b"a")
        joined.write(b"b" * SOON)
        assert transport.done == [b"a" + b"b" * SOON]  # or nothing would say that it is too much
        joined.write(b"")
        joined.write(b"c")
        joined.close()
        await asyncio.sleep(0)
        return transport.done[1:]

    assert asyncio.run(write()) == [b"c", b"closed"]
