"""The ASGI application: routes around one Service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp

from tianci.serve import docs_page, openapi
from tianci.serve.call import Call
from tianci.serve.gate import App, Gate, Message, Send
from tianci.serve.limits import Receive, read_body
from tianci.serve.metrics import TYPE
from tianci.serve.page_files import page_files, page_info
from tianci.serve.refusal import Refusal, form
from tianci.serve.routes import ROUTES, Route
from tianci.serve.service import Service

JSON = "application/json"
ASIDE = 2  # threads that read and write large requests
Handler = Callable[[Request], Awaitable[Response]]


def make_app(service: Service) -> Gate:
    """The application of a service."""

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        # few threads for what is large: each holds memory of its own long after its work
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(ASIDE, "aside"))
        loading = asyncio.wrap_future(service.start())
        if service.crew.late:
            await loading  # connections come only behind this point
        yield
        await loading
        service.batcher.stop()

    handlers = {(one.method, one.path): _handler(one, service) for one in ROUTES}
    handlers |= {("GET", path): handler for path, handler in _fixed(service).items()}
    handlers |= {("GET", path): _named("/page/*", _page(path)) for path in page_files()}
    app = Starlette(
        routes=[
            StarletteRoute(path, handler, methods=[method])
            for (method, path), handler in handlers.items()
        ],
        lifespan=life,
        exception_handlers={HTTPException: _http_error, Refusal: _refused},
    )
    app.router.redirect_slashes = False
    queued = [one.path for one in ROUTES if one.method == "POST"]
    return Gate(_straight(handlers, app), service, queued)


def _straight(handlers: dict[tuple[str, str], Handler], app: ASGIApp) -> App:
    """Asks the handler of a path that is written out; all else goes through the application's
    layers, which cost as much as all the rest of a small answer."""

    async def call(scope: Message, receive: Receive, send: Send) -> None:
        handler = None
        if scope["type"] == "http":
            handler = handlers.get((scope["method"], scope["path"]))
        if handler is None:
            await app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            response = await handler(request)
        except Refusal as error:
            response = await _refused(request, error)
        await response(scope, receive, send)

    return call


def _handler(route: Route, service: Service) -> Handler:
    """Reads and decodes the body, asks the route's function, encodes its answer."""
    asked = route.asked
    decoder = None if asked is None else msgspec.json.Decoder(asked)

    async def handle(request: Request) -> Response:
        about = request.scope["tianci"]
        about["route"] = route.path
        headers = dict(request.scope["headers"])
        if decoder is not None:
            _check_type(headers)
        body = await read_body(request.receive, headers, service.limits.body_bytes)
        if service.models is None:
            raise Refusal("Unhealthy", "the models are being loaded", {"Retry-After": "2"})
        value = None if decoder is None else _decode(decoder, body)
        call = Call(
            service.models, service.batcher, service.limits, request.receive, len(body),
            parameters=route.parameters(request), runs=service.runs,
            ending=lambda: service.draining,
        )  # fmt: skip
        try:
            found = await route.function(value, call)
        except (Refusal, ConnectionAbortedError):
            raise
        except Exception as error:
            service.log.failure(about["id"], error)
            raise Refusal("Backend", "Inference failed") from error
        finally:
            about["tokens"] = call.tokens
            service.gauge()
        if isinstance(found, AsyncIterator):
            return StreamingResponse(found, media_type="text/event-stream")
        if call.size > 4096:  # large answers belong to large requests
            return Response(await asyncio.to_thread(msgspec.json.encode, found), media_type=JSON)
        return Response(msgspec.json.encode(found), media_type=JSON)

    return handle


def _check_type(headers: dict[bytes, bytes]) -> None:
    # also keeps forms of other web sites out: they cannot send this type without being asked
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json":
        raise Refusal("MediaType", "send JSON, with Content-Type: application/json")


def _decode(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise Refusal("Invalid", str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal("Malformed", "the body is not JSON") from error


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    body = msgspec.json.encode(form(error, request.scope["path"]))
    return Response(body, error.status, error.headers, JSON)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    known = {404: "NotFound", 405: "MethodNotAllowed"}
    kind = known.get(error.status_code, "Invalid")
    sentence = {"NotFound": "no such route; see /docs", "MethodNotAllowed": "use another method"}
    refusal = Refusal(kind, sentence.get(kind, str(error.detail)), dict(error.headers or {}))
    return await _refused(request, refusal)


# ---------------------------------------------------------------- pages that answer by themselves


def _fixed(service: Service) -> dict[str, Handler]:
    document = openapi.document(ROUTES)
    specification = msgspec.json.encode(document)
    page, style = docs_page.page(ROUTES, document).encode(), docs_page.STYLE.encode()

    async def health() -> Response:
        return Response(b'{"status":"ok"}', media_type=JSON)

    async def ready() -> Response:
        if service.ready:
            return Response(b'{"status":"ready"}', media_type=JSON)
        why = "ending" if service.draining else "full" if service.batcher.full else "loading"
        refusal = Refusal("Unhealthy", f"not ready: {why}")
        return Response(
            msgspec.json.encode(form(refusal, "/ready")), 503, {"Retry-After": "1"}, JSON
        )

    async def metrics() -> Response:
        service.gauge()
        return Response(await asyncio.to_thread(service.metrics.text), media_type=TYPE)

    async def openapi_json() -> Response:
        return Response(specification, media_type=JSON)

    async def page_json() -> Response:
        if service.models is None:
            raise Refusal("Unhealthy", "the models are being loaded", {"Retry-After": "2"})
        return Response(msgspec.json.encode(page_info(service, service.models)), media_type=JSON)

    async def docs(request: Request) -> Response:
        request.scope["tianci"]["route"] = "/docs"
        host, port = request.scope.get("server") or ("127.0.0.1", 8000)
        at = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return Response(
            page.replace(docs_page.ADDRESS.encode(), at.encode()), media_type="text/html"
        )

    async def docs_css() -> Response:
        return Response(style, media_type="text/css")

    return {
        path: _named(path, function)
        for path, function in {
            "/health": health,
            "/ready": ready,
            "/metrics": metrics,
            "/openapi.json": openapi_json,
            "/docs.css": docs_css,
            "/page/info": page_json,
        }.items()
    } | {"/docs": docs}


def _page(path: str) -> Callable[[], Awaitable[Response]]:
    body, kind = page_files()[path]

    async def file() -> Response:
        return Response(body, media_type=kind)

    return file


def _named(path: str, function: Callable[[], Awaitable[Response]]) -> Handler:
    async def handle(request: Request) -> Response:
        request.scope["tianci"]["route"] = path
        return await function()

    return handle
