"""How much a request may be, and what happens beyond it; all of it before any JSON is read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from tianci.errors import UserError
from tianci.serve.refusal import Refusal
from tianci.settings import setting

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
BODY_SECONDS = 30.0  # a body that takes longer is given up
# bytes of a refused body that are read: the connection can stay then, and the client, who may look
# for an answer only when it has sent everything, gets one
THROWN_AWAY = 2_000_000


@dataclass(frozen=True)
class Limits:
    """Of one server process."""

    body_bytes: int = setting(2_000_000, "most bytes of a request (413 beyond)")
    inputs: int = setting(512, "most inputs of a request (413 beyond)")
    input_tokens: int = setting(
        16384, "most tokens of an input that is read in windows: tag, answer (413 beyond)"
    )
    new_tokens: int = setting(512, "most tokens that /generate writes (413 beyond)")
    batch_tokens: int = setting(4096, "tokens that run together")
    queue_tokens: int = setting(131072, "tokens that may wait (429 beyond)")
    queue_seconds: float = setting(
        3.0, "seconds that requests may have to wait, by the speed of the last ones (429 beyond)"
    )
    concurrent: int = setting(512, "requests that may be open at once (429 beyond)")
    truncate: bool = setting(False, "cut inputs that are too long when the request does not say")

    def __post_init__(self) -> None:
        for name in ("body_bytes", "inputs", "input_tokens", "new_tokens", "batch_tokens",
                     "queue_tokens", "concurrent"):  # fmt: skip
            if getattr(self, name) < 1:
                raise UserError(f"--{name.replace('_', '-')} must be at least 1")
        if not self.queue_seconds > 0:
            raise UserError("--queue-seconds must be more than 0")

    def check_inputs(self, count: int) -> None:
        """Refuses none and too many."""
        if not count:
            raise Refusal("Empty", "`inputs` cannot be empty")
        if count > self.inputs:
            raise Refusal(
                "Validation", f"batch size {count} > maximum allowed batch size {self.inputs}"
            )

    def too_long(self, tokens: int, most: int, cuts: bool = True) -> Refusal:
        """In TEI's words; cuts: whether `truncate` would help."""
        hint = ', or send "truncate": true where the route knows it' if cuts else ""
        said = f"`inputs` must have at most {most} tokens. Given: {tokens}; shorten them{hint}"
        return Refusal("Validation", said)


def declared(headers: dict[bytes, bytes]) -> int | None:
    """The length that a request announces."""
    value = headers.get(b"content-length", b"")
    return int(value) if value.isdigit() else None


async def read_body(receive: Receive, headers: dict[bytes, bytes], most: int) -> bytes:
    """The body, or 413 as soon as it is known to be too long."""
    refusal = Refusal(
        "Validation", f"a request may have {most} bytes at most", {"Connection": "close"}
    )
    if (declared(headers) or 0) > most:
        raise refusal
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _collect(receive, most, refusal)
    except TimeoutError:
        raise Refusal(
            "Timeout", f"the body did not come in {BODY_SECONDS:g} seconds", {"Connection": "close"}
        ) from None


async def _collect(receive: Receive, most: int, refusal: Refusal) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionAbortedError
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            raise refusal
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)


async def throw_away(receive: Receive, headers: dict[bytes, bytes]) -> bool:
    """Reads past a small body that nobody wants; False where the connection must close instead."""
    length = declared(headers)
    if length is None and b"transfer-encoding" not in headers:
        return True  # there is none
    if length is None or length > THROWN_AWAY:
        return False
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return True
    except TimeoutError:
        return False
