"""Limits, keys and headers: what is refused, with which status, and that the log holds no text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.serve.conftest import LIMIT, Running
from tianci.errors import UserError
from tianci.serve.limits import Limits
from tianci.serve.plan import check_key, named
from tianci.serve.refusal import STATUS

Start = Callable[..., Running]
JSON = {"Content-Type": "application/json"}


def test_bytes_inputs_and_tokens(running: Start) -> None:
    server = running("base", "classify", "answer", limits={"body_bytes": 4000, "inputs": 3})
    for body, status, kind in [
        ({"inputs": ["天"] * 4}, 413, "Validation"),
        ({"inputs": "天" * 2000}, 413, "Validation"),  # 6,000 bytes
        ({"inputs": "天" * (LIMIT - 1)}, 413, "Validation"),  # with [CLS] and [SEP] one too many
        ({"inputs": []}, 400, "Empty"),
        ({"inputs": ""}, 400, "Empty"),
        ({"inputs": ["天", ""]}, 400, "Empty"),
        ({"inputs": [[]]}, 400, "Empty"),
        ({"inputs": 3}, 422, "Invalid"),
        ({}, 422, "Invalid"),
        ({"inputs": "天", "truncation_direction": "Up"}, 422, "Invalid"),
        ({"inputs": ["天", 3]}, 422, "Invalid"),
        ({"inputs": [3, 9999]}, 422, "Tokenizer"),
    ]:
        found = server.post("/embed", body)
        assert (found.status_code, found.json()["error_type"]) == (status, kind), body
        assert STATUS[kind] == status
    assert server.post("/embed", {"inputs": "天" * (LIMIT - 2)}).status_code == 200
    long = {"inputs": "天" * 100, "truncate": True}
    assert server.post("/embed", long).status_code == 200
    assert server.post("/predict", long).status_code == 200
    assert server.post("/predict", {"inputs": "天" * 100}).status_code == 413
    assert server.post("/fill", {"inputs": "天" * 100 + "[MASK]"}).status_code == 413
    question = {"question": "天", "context": "今天" * 300}  # windows, so it may be longer
    assert server.post("/answer", {"inputs": question}).status_code == 200
    many = server.post("/embed", {"inputs": ["天"] * 4}).json()["error"]
    assert many == "batch size 4 > maximum allowed batch size 3"


def test_texts_are_cut_on_the_side_that_is_asked_for(running: Start) -> None:
    server = running("base", "classify", "pair")
    begin, end = "今" * (LIMIT - 2), "天" * (LIMIT - 2)

    def said(path: str, inputs: object, **options: object) -> list[object]:
        found = server.post(path, {"inputs": inputs, "truncate": True, **options})
        assert found.status_code == 200, found.text
        answer: list[object] = found.json()
        return answer

    for path in ("/embed", "/predict"):
        left = said(path, begin + end, truncation_direction="Left")
        assert left == said(path, end), path
        right = said(path, begin + end)
        assert right == said(path, begin) == said(path, begin + end, truncation_direction="Right")
        assert left != right
    ids = [[5, *[6] * LIMIT]]
    assert said("/embed", ids, truncation_direction="Left") == said("/embed", [[6] * LIMIT])
    assert said("/embed", ids) == said("/embed", [[5, *[6] * (LIMIT - 1)]])
    pair = [begin + end, "天"]
    assert said("/predict", pair, truncation_direction="left") != said("/predict", pair)


def test_long_texts_are_scored_only_where_that_is_bounded(running: Start) -> None:
    server = running("base", limits={"batch_tokens": 100, "input_tokens": 60})
    assert server.post("/score", {"inputs": "天" * 18}).status_code == 200  # 20 times 20 tokens
    assert server.post("/score", {"inputs": "天" * 19}).status_code == 413


def test_bodies_that_are_no_json(running: Start) -> None:
    server = running("base")
    for content, status in [
        (b"{", 400), (b"", 400), (b"\xff\xfe", 400), (b'{"inputs": "\xff"}', 400),
        (b"[" * 100_000, 422), (b'{"inputs": ' + b"[" * 50_000, 422), (b"null", 422),
        (b'{"inputs": "\\ud800"}', 400), (b'{"inputs": [1e400]}', 422),
    ]:  # fmt: skip
        found = server.client.post("/embed", content=content, headers=JSON)
        assert found.status_code in (400, 422), content[:20]
        assert found.status_code == status, (content[:20], found.text)
    form = server.client.post("/embed", data={"inputs": "x"})
    assert form.status_code == 415 and "application/json" in form.json()["error"]
    assert server.client.get("/embed").status_code == 405
    assert server.client.get("/embed").headers["allow"] == "POST"
    assert server.client.get("/nothing").json()["error_type"] == "NotFound"
    assert server.client.get("/embed/").status_code == 404  # no redirects


def test_a_key_is_needed_everywhere_but_for_health(running: Start) -> None:
    server = running("base", key="correct horse")
    right = {"Authorization": "Bearer correct horse"}
    for path in ("/info", "/metrics", "/docs", "/openapi.json", "/v1/models"):
        refused = server.client.get(path)
        assert refused.status_code == 401 and refused.headers["www-authenticate"] == "Bearer"
        assert server.client.get(path, headers=right).status_code == 200
    for path in ("/health", "/ready"):
        assert server.client.get(path).status_code == 200
    for wrong in ("Bearer correct", "Basic correct horse", "Bearer ", "correct horse", "Bearer é"):
        headers = {"Authorization": wrong.encode("latin-1")}
        body = {"inputs": "天"}
        assert server.client.post("/embed", json=body, headers=headers).status_code == 401
    assert server.client.post("/embed", json={"inputs": "天"}, headers=right).status_code == 200
    anywhere = {**right, "Host": "models.example"}
    assert server.client.get("/info", headers=anywhere).status_code == 200


def test_without_a_key_only_local_names(running: Start) -> None:
    server = running("base")
    for host, status in [("localhost:8000", 200), ("127.0.0.1", 200), ("[::1]:8000", 200),
                         ("evil.example", 421), ("localhost.evil.example:8000", 421)]:  # fmt: skip
        assert server.client.get("/info", headers={"Host": host}).status_code == status


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.org"])
def test_another_address_needs_a_key(host: str) -> None:
    with pytest.raises(UserError, match="needs a key: --api-key KEY"):
        check_key(host, None)
    check_key(host, "long enough")
    with pytest.raises(UserError, match="at least 8 characters"):
        check_key(host, "short")


def test_every_answer_has_strict_headers(running: Start) -> None:
    server = running("base")
    for found in (
        server.client.get("/docs"), server.client.get("/nothing"), server.client.get("/health"),
        server.post("/embed", {"inputs": 3}), server.post("/embed", {"inputs": "天"}),
        server.client.get("/info", headers={"Host": "evil.example", "Origin": "http://evil.example"}),
    ):  # fmt: skip
        policy = found.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["referrer-policy"] == "no-referrer"
        assert not [name for name in found.headers if name.startswith("access-control")]
    assert server.client.options("/embed", headers={"Origin": "http://x"}).status_code == 405


def test_the_log_tells_all_but_the_text(running: Start) -> None:
    server = running("base")
    server.post("/embed", {"inputs": "天气圆周"})
    server.post("/fill", {"inputs": "天气圆周"})  # its error repeats the text, to the client only
    server.client.get("/nothing/天气圆周?q=天气圆周")
    lines = [json.loads(line) for line in server.written.getvalue().splitlines()]
    assert [(one["method"], one["route"], one["status"]) for one in lines] == [
        ("POST", "/embed", 200), ("POST", "/fill", 422), ("GET", "other", 404),
    ]  # fmt: skip
    assert lines[0]["tokens"] == 6 and lines[0]["ms"] > 0 and len(lines[0]["id"]) == 32
    logged = server.written.getvalue()
    for secret in ("天气", "圆周", "%E5", "\\u5929"):
        assert secret not in logged


def test_concurrency_and_readiness(running: Start) -> None:
    server = running("base", limits={"concurrent": 1})
    server.service.open = 1  # somebody else is being answered
    refused = server.post("/embed", {"inputs": "天"})
    assert refused.status_code == 429 and int(refused.headers["retry-after"]) >= 1
    assert refused.json()["error_type"] == "Overloaded"
    assert server.client.get("/health").status_code == 200
    server.service.open = 0
    assert server.post("/embed", {"inputs": "天"}).status_code == 200
    server.service.draining = True
    assert server.client.get("/ready").status_code == 503
    assert server.client.get("/health").status_code == 200
    ending = server.post("/embed", {"inputs": "天"})
    assert ending.status_code == 503 and ending.headers["connection"] == "close"
    server.service.draining, models = False, server.service.models
    server.service.models = None
    assert "loading" in server.client.get("/ready").json()["error"]
    assert server.post("/embed", {"inputs": "天"}).status_code == 503
    server.service.models = models
    server.service.batcher.waiting = server.service.limits.queue_tokens
    assert "full" in server.client.get("/ready").json()["error"]
    # a full queue refuses what would wait in it; what is wrong for good is told as always
    asked = {path: server.post(path, {"inputs": "天"}) for path in ("/embed", "/nothing", "/info")}
    assert [one.status_code for one in asked.values()] == [429, 404, 405]
    assert asked["/nothing"].json()["error_type"] == "NotFound"
    told = [json.loads(line) for line in server.written.getvalue().splitlines()[-3:]]
    assert [one["route"] for one in told] == ["/embed", "other", "other"]
    server.service.batcher.waiting = 0


def test_names_of_models(tmp_path: Path) -> None:
    assert named(["a/b", "x=c"]) == [("b", Path("a/b")), ("x", Path("c"))]
    (tmp_path / "odd=name").mkdir()
    assert named([str(tmp_path / "odd=name")]) == [("odd=name", tmp_path / "odd=name")]
    with pytest.raises(UserError, match='two models are named "b"'):
        named(["a/b", "b=c"])
    with pytest.raises(UserError, match="neither DIR nor NAME=DIR"):
        named(["=c"])
    with pytest.raises(UserError, match="--queue-tokens must be at least 1"):
        Limits(queue_tokens=0)
