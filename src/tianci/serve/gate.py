"""What every request passes first: host, key, room; and what every answer carries."""

from __future__ import annotations

import hmac
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

import msgspec

from tianci.serve.limits import Receive, throw_away
from tianci.serve.page_files import page_files
from tianci.serve.refusal import Refusal, form
from tianci.serve.service import Service

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

OPEN = ("/health", "/ready")  # for load balancers: without a key, and while the server ends
HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
)


class Gate:
    """Stands before the routes."""

    def __init__(self, app: App, service: Service, queued: Collection[str]):
        self.app, self.service = app, service
        self.queued = frozenset(queued)  # paths whose POSTs wait in the queue; others have no need

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        service = self.service
        begun, status, identity = time.perf_counter(), 499, uuid.uuid4().hex  # 499: nobody waited
        scope["tianci"] = {"id": identity, "route": "other", "tokens": 0}

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                extra = [*HEADERS, (b"x-request-id", identity.encode())]
                if service.draining:
                    extra.append((b"connection", b"close"))
                message["headers"] = [*message.get("headers", ()), *extra]
            await send(message)

        service.open += 1
        service.metrics.open.inc()
        try:
            await self._pass(scope, receive, answer)
        except ConnectionAbortedError:
            pass  # the client has gone; there is nobody to tell
        except Exception as error:
            service.log.failure(identity, error)
            if status != 499:
                raise  # half an answer is out: the connection must break
            refusal = Refusal("Internal", "something failed here; the log tells where")
            await refuse(refusal, scope["path"], answer)
        finally:
            service.open -= 1
            service.metrics.open.dec()
            seconds = time.perf_counter() - begun
            about = scope["tianci"]
            method = scope["method"] if scope["method"] in METHODS else "other"
            service.metrics.requests.labels(method, about["route"], str(status)).inc()
            service.metrics.seconds.labels(about["route"]).observe(seconds)
            service.log.line(
                method=method,
                route=about["route"],
                status=status,
                ms=round(1000 * seconds, 2),
                tokens=about["tokens"],
                id=identity,
            )

    async def _pass(self, scope: Message, receive: Receive, send: Send) -> None:
        headers, service = dict(scope["headers"]), self.service
        queued = scope["method"] == "POST" and scope["path"] in self.queued
        if queued:
            scope["tianci"]["route"] = scope["path"]  # refusals are counted with their route too
        try:
            if scope["path"] not in OPEN:
                self._check(headers, scope["path"] in page_files())
                if queued and service.batcher.full:
                    raise service.batcher.overloaded()  # before its head and body are looked at
        except Refusal as refusal:
            if refusal.status == 429 and not await throw_away(receive, headers):
                refusal.headers["Connection"] = "close"
            await refuse(refusal, scope["path"], send)
            return
        await self.app(scope, receive, send)

    def _check(self, headers: dict[bytes, bytes], public: bool) -> None:
        """Refuses; a browser that asks for the page itself cannot send the key yet."""
        service = self.service
        if not service.hosted(headers.get(b"host", b"").decode("latin-1")):
            raise Refusal(
                "WrongHost", "this server has no key and answers to local names only; see --host"
            )
        if service.key is not None and not public and not _knows(headers, service.key):
            raise Refusal(
                "Unauthorized", "give the key: Authorization: Bearer KEY",
                {"WWW-Authenticate": "Bearer"},
            )  # fmt: skip
        if service.draining:
            raise Refusal("Unhealthy", "the server is ending", {"Retry-After": "1"})
        if service.open > service.limits.concurrent:
            after = {"Retry-After": str(service.batcher.seconds())}
            raise Refusal("Overloaded", "too many requests at once; try later", after)


METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")


def _knows(headers: dict[bytes, bytes], key: str) -> bool:
    """Whether the key came along; takes as long whatever was given."""
    scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
    known = hmac.compare_digest(given.strip(), key.encode())
    return known and scheme.lower() == b"bearer"


async def refuse(refusal: Refusal, path: str, send: Send) -> None:
    """Sends a refusal."""
    body = msgspec.json.encode(form(refusal, path))
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *((k.lower().encode(), v.encode()) for k, v in refusal.headers.items()),
    ]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
