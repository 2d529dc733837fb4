"""Requests made up from the OpenAPI document: every answer is one that the document promises, none
is a fault of the server. Short here; the long run is another command (docs/serving.md)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.serve.conftest import Live

MODELS = ("base", "classify", "pair", "tag", "answer", "choose", "similar", "gpt2")
EXAMPLES = 8  # per route and kind of data: about 250 requests in all


@pytest.mark.parametrize("kind", ["POSITIVE", "NEGATIVE"])
def test_made_up_requests(live: Callable[..., Live], kind: str) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    hypothesis = pytest.importorskip("hypothesis")
    from schemathesis import checks

    server = live(*MODELS, new_tokens=8)
    schema = schemathesis.openapi.from_url(server.url + "/openapi.json")
    wanted = [
        checks.CHECKS.get_one(name)
        for name in (
            "not_a_server_error", "status_code_conformance", "content_type_conformance",
            "response_schema_conformance",
        )
    ]  # fmt: skip
    mode = schemathesis.GenerationMode[kind]
    seen: dict[int, int] = {}
    for found in schema.get_all_operations():
        operation = found.ok()

        @hypothesis.settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        def check(case: schemathesis.Case) -> None:
            response = case.call()
            seen[response.status_code] = seen.get(response.status_code, 0) + 1
            case.validate_response(response, checks=wanted)

        try:
            check()
        except hypothesis.errors.Unsatisfiable:
            continue  # nothing about this route can be wrong
    assert seen.get(200 if kind == "POSITIVE" else 422, 0) > 30, seen
