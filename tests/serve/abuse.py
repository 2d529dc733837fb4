"""Requests as no decent client sends them: changed bodies, broken heads, half messages, hang-ups.

Made from the examples of the routes by seeded dice, so that a failure can be repeated.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tianci.serve.routes import ROUTES

STRINGS = (
    "", " ", "\0", "a" * 5000, "天" * 3000, "[MASK]", "[MASK] " * 600, "\ud800", "\u202ex",
    "e\u0301" * 500, "😀" * 300, "\r\nX-Evil: 1\r\n\r\n", "../../etc/passwd",
    "<script>alert(1)</script>", "%00%s%n", "\ufeff", "ﷺ" * 100, "\x1b[2J", "NaN", "-1", "null",
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**40, 0.5, -0.0, 1e308, [], {}, [[]],
    [None], [[], []], {"": {}}, [1, "a", [2]], [["a", "b", "c"]], ["a"] * 600, [0] * 600,
    [[1] * 600],
)  # fmt: skip
RAW = (
    b"", b"{", b"[", b"}", b"null", b'"', b"\xff\xfe", b"{}" * 100, b"[" * 100_000, b'{"a":' * 5000,
    b'{"inputs": NaN}', b'{"inputs": 1e999}', b'{"inputs": "\xed\xa0\x80"}',
    b'{"inputs": "\\ud800"}',
    b'{"inputs": "x", "inputs": "y"}', b'\xef\xbb\xbf{"inputs": "x"}', b'{"inputs": "\x00"}',
)  # fmt: skip
HEADS = (
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET /embed HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /embed HTTP/1.0\r\n\r\n",
    b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
    b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
    b"POST /embed HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 2\r\n\r\n{}",
    b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999\r\n\r\n",
    b"POST /embed HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    b"POST /embed HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"POST /embed HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
    b"Content-Length: 2\r\n\r\n{}",
    b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n",
    b"GET /%00%ff/../..//etc HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /v1/models/%2e%2e%2f HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /" + b"a" * 60_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-Y: z\r\n" * 5000 + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: \xff\xff\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS greeting
    b"\0" * 4096,
    b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nHost: localhost\r\n\r\n",
)


@dataclass(frozen=True)
class Message:
    """Bytes to send, and how the client behaves then."""

    data: bytes
    hang_up: bool = False  # goes away instead of waiting for an answer
    ends: bool = False  # says that nothing more will come, which not all of them say by themselves


def messages(seed: int) -> Iterator[Message]:
    """Without an end."""
    dice = random.Random(seed)
    posts = [route for route in ROUTES if route.method == "POST"]
    while True:
        route = dice.choice(posts)
        kind = dice.random()
        if kind < 0.70:
            body = _encoded(_changed(route.example, dice))
        elif kind < 0.82:
            body = _damaged(_encoded(route.example), dice)
        elif kind < 0.88:
            body = dice.choice(RAW)
        else:
            yield Message(dice.choice(HEADS), dice.random() < 0.3, ends=True)
            continue
        whole = _post(route.path, body, dice)
        if dice.random() < 0.04:  # the client goes away in the middle, or before the answer
            yield Message(whole[: dice.randrange(1, len(whole) + 1)], hang_up=True)
        else:
            yield Message(whole, ends=dice.random() < 0.03)


def _post(path: str, body: bytes, dice: random.Random) -> bytes:
    kind = "application/json" if dice.random() < 0.97 else dice.choice(["", "text/plain", "x/\xff"])
    if dice.random() < 0.02:
        path = dice.choice([path + "/", path.upper(), path + "?a=%ff", "/" + path, path + "%20"])
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {kind}\r\n"
    )
    if dice.random() < 0.05:
        size = f"{len(body):x}\r\n".encode()
        chunked = size + body + b"\r\n0\r\n\r\n" if body else b"0\r\n\r\n"
        return head.encode("latin-1") + b"Transfer-Encoding: chunked\r\n\r\n" + chunked
    return head.encode("latin-1") + f"Content-Length: {len(body)}\r\n\r\n".encode() + body


def _encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True).encode()


def _changed(example: Any, dice: random.Random) -> Any:
    """A body with one to three things about it that are odd."""
    body = copy.deepcopy(example)
    for _ in range(dice.randint(1, 3)):
        places = list(_places(body))
        if not places or not isinstance(body, dict):
            return body
        above, key = dice.choice(places)
        kind = dice.random()
        if kind < 0.35:
            above[key] = dice.choice(STRINGS)
        elif kind < 0.7:
            above[key] = copy.deepcopy(dice.choice(ODD))
        elif kind < 0.8 and isinstance(above, dict):
            del above[key]
        elif kind < 0.9:
            above[key] = [copy.deepcopy(above[key]) for _ in range(dice.choice((1, 2, 40)))]
        else:
            names = ("model", "truncate", "top", "normalize", "dimensions", "max_new_tokens", "x",
                     "temperature", "beams", "stream", "inputs", "input")  # fmt: skip
            body[dice.choice(names)] = dice.choice([*STRINGS[:8], *ODD])
    return body


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    inside: Sequence[Any] = ()
    if isinstance(value, dict):
        inside = list(value)
    elif isinstance(value, list):
        inside = range(len(value))
    for key in inside:
        yield value, key
        yield from _places(value[key])


def _damaged(body: bytes, dice: random.Random) -> bytes:
    """Cut, turned or doubled somewhere."""
    changed = bytearray(body)
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(changed) + 1)
        change = dice.random()
        if change < 0.3:
            del changed[at : at + dice.randint(1, 20)]
        elif change < 0.7 and at < len(changed):
            changed[at] = dice.randrange(256)
        else:
            changed[at:at] = changed[: dice.randint(1, 20)]
    return bytes(changed)


@dataclass
class Result:
    """Statuses (0: no answer), and the messages that the server must be ashamed of."""

    statuses: Counter[int] = field(default_factory=Counter)
    bad: list[bytes] = field(default_factory=list)


async def abuse(port: int, count: int, seed: int = 0, clients: int = 8) -> Result:
    """Sends so many of them, several at a time, each on a connection of its own."""
    result, left = Result(), iter(range(count))
    source = messages(seed)

    async def client() -> None:
        for _ in left:
            message = next(source)
            status = await send(port, message)
            result.statuses[status] += 1
            if status >= 500:
                result.bad.append(message.data)

    await asyncio.gather(*(client() for _ in range(clients)))
    return result


async def send(port: int, message: Message) -> int:
    """The status that came back; 0 where none did."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(message.data)
        await writer.drain()
        if message.hang_up:
            return 0
        if message.ends:
            writer.write_eof()
        async with asyncio.timeout(60):
            said = await reader.read(65536)
            while await reader.read(65536):
                pass
        found = re.match(rb"HTTP/1\.1 (\d{3}) ", said)
        return int(found[1]) if found else 0
    except OSError:  # the server closed first, as it may
        return 0
    finally:
        writer.close()
