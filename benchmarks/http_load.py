"""Clients that press a server: a fixed number of them (closed loop), or a fixed rate (open loop).

Plain sockets and asyncio, because the client runs on the same machine as what it measures.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


def request(path: str, body: Any, close: bool = False) -> bytes:
    """A whole POST."""
    data = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"{'Connection: close' + chr(13) + chr(10) if close else ''}"
        f"Content-Length: {len(data)}\r\n\r\n"
    ).encode() + data


class Connection:
    """One that stays open, and is made again where the server closed it."""

    def __init__(self, port: int):
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def ask(self, message: bytes) -> tuple[int, bytes]:
        """(status, body); 0 where there was no answer."""
        fresh = self.writer is None
        try:
            return await self._ask(message)
        except (OSError, asyncio.IncompleteReadError, ValueError):
            self.drop()
        if fresh:
            return 0, b""
        try:  # an old connection may have been closed meanwhile
            return await self._ask(message)
        except (OSError, asyncio.IncompleteReadError, ValueError):
            self.drop()
            return 0, b""

    async def _ask(self, message: bytes) -> tuple[int, bytes]:
        if self.reader is None or self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(
                "127.0.0.1", self.port, limit=1 << 24
            )
        self.writer.write(message)
        head = await self.reader.readuntil(b"\r\n\r\n")
        status, size, closes = int(head[9:12]), 0, False
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                size = int(line[15:])
            closes = closes or line == b"connection: close"
        body = await self.reader.readexactly(size)
        if closes:
            self.drop()
        return status, body

    def drop(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None


@dataclass
class Load:
    """What came back: when it was sent, how long it took, with which status."""

    began: float = field(default_factory=time.perf_counter)
    answers: list[tuple[float, float, int]] = field(default_factory=list)

    def add(self, sent: float, status: int) -> None:
        self.answers.append((sent - self.began, time.perf_counter() - sent, status))

    @property
    def lasted(self) -> float:
        """Seconds until the last answer."""
        return max((sent + took for sent, took, _ in self.answers), default=1e-9)

    @property
    def statuses(self) -> dict[int, int]:
        return dict(sorted(Counter(status for _, _, status in self.answers).items()))

    def seconds(self, status: int = 200, since: float = 0.0) -> list[float]:
        """How long answers with this status took, sorted."""
        found = (took for sent, took, code in self.answers if code == status and sent >= since)
        return sorted(found)

    def rate(self, since: float, until: float) -> float:
        """Good answers per second that came back in this time."""
        done = [1 for sent, took, code in self.answers
                if code == 200 and since <= sent + took < until]  # fmt: skip
        return len(done) / max(1e-9, until - since)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share lies; not a number of nothing."""
    if not values:
        return float("nan")
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


async def closed_loop(
    port: int, messages: Iterator[bytes], clients: int, seconds: float | None = None
) -> Load:
    """So many clients, each asking again as soon as it is answered; until the time or the messages
    are over."""
    load = Load()
    end = None if seconds is None else load.began + seconds

    async def client() -> None:
        connection = Connection(port)
        for message in messages:
            if end is not None and time.perf_counter() >= end:
                break
            sent = time.perf_counter()
            status, _ = await connection.ask(message)
            load.add(sent, status)
        connection.drop()

    await asyncio.gather(*(client() for _ in range(clients)))
    return load


async def open_loop(
    port: int, messages: Iterator[bytes], rate: float, seconds: float, most: int = 2000
) -> Load:
    """Requests at a rate, whatever becomes of those before; `most` may be open at once."""
    load, idle, tasks = Load(), list[Connection](), set[asyncio.Task[None]]()

    async def one(message: bytes) -> None:
        connection = idle.pop() if idle else Connection(port)
        sent = time.perf_counter()
        status, _ = await connection.ask(message)
        load.add(sent, status)
        idle.append(connection)

    number = 0
    while (now := time.perf_counter() - load.began) < seconds:
        while number < now * rate and len(tasks) < most:
            number += 1
            task = asyncio.create_task(one(next(messages)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        # until the next one is due: looking more often would take time from what is measured
        await asyncio.sleep(max(0.002, number / rate - (time.perf_counter() - load.began)))
    if tasks:
        await asyncio.wait(tasks, timeout=120)
    for connection in idle:
        connection.drop()
    return load


async def ready(port: int, seconds: float = 300, path: str = "/health") -> None:
    """Waits until a server answers 200."""
    message = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    end = time.monotonic() + seconds
    while (await Connection(port).ask(message))[0] != 200:
        if time.monotonic() > end:
            raise SystemExit(f"no answer on port {port} within {seconds:.0f} s")
        await asyncio.sleep(0.2)


def endless(make: Callable[[int], bytes]) -> Iterator[bytes]:
    number = 0
    while True:
        yield make(number)
        number += 1
