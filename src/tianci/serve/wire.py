"""Uvicorn's HTTP protocol with fewer packets: the head of an answer and its body leave together.

As it comes, each is a system call of its own that wakes the client, who then waits for the rest.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

SOON = 65536  # bytes that are not kept back: the transport must see them to say "slower"


class Joined:
    """A transport that sends at once what was written in one turn of the loop."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop):
        self._transport, self._loop = transport, loop
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        """Keeps small parts until the turn ends."""
        if not data:
            return
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)
        self._size += len(data)
        if self._size > SOON:
            self.flush()

    def flush(self) -> None:
        """Sends what was kept."""
        if self._parts:
            data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            self._parts, self._size = [], 0
            self._transport.write(data)

    def close(self) -> None:
        """Closes behind what was written."""
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Wire(H11Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.joined = Joined(transport, self.loop)
        super().connection_made(self.joined)  # type: ignore[arg-type]

    def on_response_complete(self) -> None:
        self.joined.flush()  # now, not when the turn ends
        super().on_response_complete()
