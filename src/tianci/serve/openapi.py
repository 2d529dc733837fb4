"""The OpenAPI document of the routes, from the types of their functions."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from tianci import __version__
from tianci.serve.refusal import STATUS, ErrorResponse, OpenAIErrorResponse
from tianci.serve.routes import Route

PLACE = "#/components/schemas/{name}"
ALWAYS = (401, 421, 429, 500, 503)
ASKED = (400, 404, 408, 413, 415, 422, 424)
WORDS = {
    400: "not JSON, or no input",
    401: "no key, or a wrong one",
    404: "no such model or run",
    408: "the body did not come in time",
    413: "too many bytes, inputs or tokens",
    415: "not application/json",
    421: "without a key only local names are answered to",
    422: "not the fields of this route, or a text that cannot be read",
    424: "the model cannot do this, or failed",
    429: "too much is waiting; see Retry-After",
    500: "a fault of the server",
    503: "loading or ending",
}


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """The whole document."""
    kinds: list[Any] = [ErrorResponse, OpenAIErrorResponse]
    for route in routes:
        kinds += [route.asked] if route.asked is not None else []
        kinds += _arms(route.answered)
    schemas, components = msgspec.json.schema_components(kinds, ref_template=PLACE)
    found = iter(schemas[2:])
    paths: dict[str, Any] = {}
    for route in routes:
        asked = next(found) if route.asked is not None else None
        arms = [next(found) for _ in _arms(route.answered)]
        answered = arms[0] if len(arms) == 1 else {"anyOf": arms} if arms else None
        operation = _operation(route, asked, answered)
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "tianci", "version": __version__, "description": ABOUT},
        "paths": paths | _fixed(),
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


ABOUT = (
    "Language models by HTTP. The field `model` of a request names one of /v1/models; without it "
    "the first model that can do what is asked answers."
)


def _arms(kind: Any) -> list[Any]:
    """The types an answer may have (msgspec knows no union of lists), without the stream of
    events, which has no schema."""
    several = typing.get_origin(kind) in (typing.Union, types.UnionType)
    arms = typing.get_args(kind) if several else (kind,)
    return [one for one in arms if typing.get_origin(one) is not AsyncIterator]


def _operation(route: Route, asked: Any, answered: Any) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": answered}} if answered else {}
    if route.streams:
        parts = {"event": {"type": "string"}, "data": {"type": "string"}}
        event = {"type": "object", "properties": parts}
        content["text/event-stream"] = {"schema": event}
    operation: dict[str, Any] = {
        "operationId": route.function.__name__,
        "summary": route.summary,
        "responses": {"200": {"description": "the answer", "content": content}},
    }
    if asked is not None:
        body = {"schema": asked, "example": route.example}
        operation["requestBody"] = {"required": True, "content": {"application/json": body}}
    if parameters := _parameters(route):
        operation["parameters"] = parameters
    error = OpenAIErrorResponse if route.path.startswith("/v1/") else ErrorResponse
    bare: tuple[int, ...] = (404, 422) if parameters else (404,) if route.path == "/runs" else ()
    some = ASKED if asked is not None else bare
    for status in sorted((*ALWAYS, *some)):
        operation["responses"][str(status)] = _refusal(status, error)
    return operation


def _parameters(route: Route) -> list[dict[str, Any]]:
    text = {"schema": {"type": "string"}}
    found = [
        {"name": name, "in": "path", "required": True, **text}
        for name in re.findall(r"{(\w+)}", route.path)
    ]
    found += [{"name": name, "in": "query", **text} for name in route.query]
    return found + [{"name": name, "in": "header", **text} for name in route.headers]


def _refusal(status: int, error: type) -> dict[str, Any]:
    assert status in STATUS.values()
    place = {"$ref": PLACE.format(name=error.__name__)}
    content = {"application/json": {"schema": place}}
    return {"description": WORDS[status], "content": content}


def _fixed() -> dict[str, Any]:
    """Routes without a function in the table."""
    told = {
        "/health": ("Whether the process is alive.", "application/json"),
        "/ready": ("Whether it takes work: 503 while loading, ending or full.", "application/json"),
        "/metrics": ("Counters for Prometheus.", "text/plain"),
    }
    found = {}
    for path, (summary, kind) in told.items():
        schema = {"type": "object" if kind == "application/json" else "string"}
        responses: dict[str, Any] = {
            "200": {"description": "the answer", "content": {kind: {"schema": schema}}}
        }
        for status in ALWAYS:
            responses[str(status)] = _refusal(status, ErrorResponse)
        operation = {"operationId": path[1:], "summary": summary, "responses": responses}
        if path != "/metrics":
            operation["security"] = []
        found[path] = {"get": operation}
    return found
