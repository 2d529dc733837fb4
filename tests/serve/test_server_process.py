"""A real server on a loopback port: real clients, dropped connections, signals, workers."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

uvicorn = pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")

from tests.serve.conftest import Live, wait  # noqa: E402
from tianci.errors import UserError  # noqa: E402
from tianci.serve import limits  # noqa: E402
from tianci.serve.plan import Plan  # noqa: E402
from tianci.serve.predictor import load  # noqa: E402
from tianci.serve.process import serve_alone  # noqa: E402
from tianci.serve.run import bind  # noqa: E402
from tianci.serve.work import Embed  # noqa: E402


class Slow:
    """Holds the inference thread until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.entered, self.go, self.seen = threading.Event(), threading.Event(), 0
        plain = Embed.run

        def run(this: Embed, items: Sequence[list[int]], step: Any) -> list[Any]:
            self.seen += len(items)
            self.entered.set()
            assert self.go.wait(20)
            return plain(this, items, step)

        monkeypatch.setattr(Embed, "run", run)


def test_the_openai_client(live: Callable[..., Live], folders: dict[str, Path]) -> None:
    openai = pytest.importorskip("openai")
    server, model = live("base", inputs=4), load(folders["base"])
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none needed", max_retries=0)
    found = client.embeddings.create(model="base", input=["今天天气", "我们"])
    vectors = [one.embedding for one in found.data]
    expected = model.embed(["今天天气", "我们"], normalize=True)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert found.usage.total_tokens == 10 and found.model == "base"
    plain = client.embeddings.create(model="base", input="我们", encoding_format="float")
    np.testing.assert_allclose(plain.data[0].embedding, expected[1], atol=1e-5)
    assert [one.id for one in client.models.list()] == ["base"]
    assert client.models.retrieve("base").id == "base"
    with pytest.raises(openai.NotFoundError, match="no model of that name") as unknown:
        client.embeddings.create(model="text-embedding-3-small", input="我们")
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.APIStatusError, match="batch size 5 > maximum") as refused:
        client.embeddings.create(model="base", input=["我"] * 5)
    assert refused.value.status_code == 413
    client.close()


def test_teis_documented_requests(live: Callable[..., Live]) -> None:
    """The bodies of TEI's README and quick tour, as they stand there."""
    server = live("base", "classify", "pair", inputs=8)
    asked = {
        "/embed": '{"inputs":"What is Deep Learning?"}',
        "/rerank": '{"query":"What is Deep Learning?", "texts": ["Deep Learning is not...", '
        '"Deep learning is..."], "raw_scores": false}',
        "/predict": '{"inputs":"I like you."}',
        "/similarity": '{"inputs":{"source_sentence":"What is Deep Learning?",'
        '"sentences":["What is Machine Learning?"]}}',
        "/tokenize": '{"inputs":"What is Deep Learning?"}',
    }
    with httpx.Client(base_url=server.url, headers={"Content-Type": "application/json"}) as client:
        found = {path: client.post(path, content=body) for path, body in asked.items()}
        assert {path: one.status_code for path, one in found.items()} == dict.fromkeys(asked, 200)
        assert np.array(found["/embed"].json()).shape == (1, 32)
        assert {one["index"] for one in found["/rerank"].json()} == {0, 1}
        assert {one["label"] for one in found["/predict"].json()} == {"-", "+"}
        assert -1 <= found["/similarity"].json()[0] <= 1
        batch = client.post("/embed", content='{"inputs":["Today is a nice day", "I like you"]}')
        assert len(batch.json()) == 2


def test_bodies_that_are_too_long_are_not_read(live: Callable[..., Live]) -> None:
    server = live("base", body_bytes=1000)
    with socket.create_connection(("127.0.0.1", server.port)) as at:
        at.sendall(
            b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1000000000\r\n\r\n"
        )
        said = at.recv(65536)  # before any of it was sent
    assert said.startswith(b"HTTP/1.1 413") and b"connection: close" in said.lower()
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 100_000_000:
            sent += 1000
            yield b" " * 1000

    headers = {"Content-Type": "application/json"}
    with httpx.Client(base_url=server.url, headers=headers) as client:
        with contextlib.suppress(httpx.TransportError):  # closed under the client's hands
            assert client.post("/embed", content=endless()).status_code == 413
        assert sent < 50_000_000
        assert client.post("/embed", json={"inputs": "天"}).status_code == 200


def test_dropped_clients_free_their_work(
    live: Callable[..., Live], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, slow = live("base"), Slow(monkeypatch)
    batcher = server.service.batcher
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(httpx.post, server.url + "/embed", json={"inputs": "天"}, timeout=30)
        assert slow.entered.wait(20)
        with socket.create_connection(("127.0.0.1", server.port)) as at:
            body = json.dumps({"inputs": ["我们", "他们", "你们"]}).encode()
            at.sendall(
                b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
            )
            wait(lambda: batcher.inputs == 3)
        wait(lambda: batcher.inputs == 0)  # gone with its connection
        assert batcher.waiting == 0
        slow.go.set()
        assert first.result().status_code == 200
    assert slow.seen == 1
    wait(lambda: server.service.open == 0)


def test_a_dropped_stream_ends_its_text(live: Callable[..., Live]) -> None:
    server = live("gpt2")
    body = {"inputs": "今", "max_new_tokens": 40, "stream": True, "temperature": 1.0}
    with httpx.Client(base_url=server.url) as client:
        with client.stream("POST", "/generate", json=body) as stream:
            next(stream.iter_lines())
        wait(lambda: server.service.open == 0)
        assert client.post("/embed", json={"inputs": "天"}).status_code == 200


def test_a_full_queue_answers_429_at_once(
    live: Callable[..., Live], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, slow = live("base", queue_tokens=9), Slow(monkeypatch)
    post = lambda text: httpx.post(server.url + "/embed", json={"inputs": text}, timeout=30)  # noqa: E731
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(post, "天")
        assert slow.entered.wait(20)
        waiting = pool.submit(post, "今天天气")  # six tokens
        wait(lambda: server.service.batcher.waiting == 6)
        refused = post("天气")
        assert refused.status_code == 429 and int(refused.headers["retry-after"]) >= 1
        slow.go.set()
        assert first.result().status_code == waiting.result().status_code == 200
    assert post("天气").status_code == 200


def test_sigterm_finishes_what_was_accepted(
    live: Callable[..., Live], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, slow = live("base"), Slow(monkeypatch)
    post = lambda: httpx.post(server.url + "/embed", json={"inputs": "天"}, timeout=30)  # noqa: E731
    with ThreadPoolExecutor(3) as pool:
        accepted = [pool.submit(post) for _ in range(2)]
        wait(lambda: server.service.batcher.inputs + slow.seen == 2)
        server.server.handle_exit(signal.SIGTERM, None)
        late = post()
        assert late.status_code == 503 and late.headers["connection"] == "close"
        assert httpx.get(server.url + "/ready").status_code == 503
        assert httpx.get(server.url + "/health").status_code == 200
        slow.go.set()
        assert [one.result().status_code for one in accepted] == [200, 200]
    server.thread.join(20)
    assert not server.thread.is_alive()
    with pytest.raises(httpx.ConnectError):
        post()


def test_a_body_that_does_not_come_is_given_up(
    live: Callable[..., Live], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.1)
    server = live("base")
    with socket.create_connection(("127.0.0.1", server.port)) as at:
        at.sendall(
            b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 10\r\n\r\n{"
        )
        assert at.recv(65536).startswith(b"HTTP/1.1 408")
    wait(lambda: server.service.open == 0)


def test_a_model_that_cannot_be_loaded_ends_the_server(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="config.json"):
        serve_alone(Plan([str(tmp_path)], quiet=True), bind("127.0.0.1", 0))


# ---------------------------------------------------------------- the command


def tianci(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tianci", *arguments]


def test_the_command_refuses_in_one_sentence(folders: dict[str, Path]) -> None:
    base = str(folders["base"])
    plan = Plan([base], host="0.0.0.0")
    with pytest.raises(UserError, match="needs a key"):
        plan.check()
    with pytest.raises(UserError, match="is not a model directory"):
        Plan([base, "elsewhere"]).check()
    done = subprocess.run(
        tianci("serve", base, "--host", "0.0.0.0"),
        capture_output=True, text=True, check=False,
        env={k: v for k, v in os.environ.items() if k != "TIANCI_API_KEY"},
    )  # fmt: skip
    assert done.returncode == 2 and done.stdout == ""
    assert re.fullmatch(r"tianci: --host 0\.0\.0\.0 makes .* needs a key: .*\n", done.stderr)


def test_workers_by_the_command_line(folders: dict[str, Path]) -> None:
    """Two processes, one port: a key, metrics of both, one of them killed, SIGTERM, exit code 0."""
    environment = {**os.environ, "TIANCI_API_KEY": "12345678", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        tianci("serve", str(folders["base"]), "--port", "0", "--workers", "2"),
        stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    assert process.stderr is not None
    found = re.search(r"http://127\.0\.0\.1:(\d+)/docs", process.stderr.readline())
    assert found
    logged: list[str] = []
    reader = threading.Thread(target=lambda: logged.extend(process.stderr or ()))
    reader.start()
    url, key = f"http://127.0.0.1:{found[1]}", {"Authorization": "Bearer 12345678"}
    try:
        wait(lambda: get(url + "/ready") == 200, 120)
        body = {"inputs": "今天天气"}
        # all workers are ready, whichever it is that answers
        assert [post(url + "/embed", body, key) for _ in range(4)] == [200] * 4
        assert httpx.post(url + "/embed", json=body).status_code == 401
        metrics = httpx.get(url + "/metrics", headers=key).text
        count = 'tianci_requests_total{method="POST",route="/embed",status="200"} 4.0'
        assert count in metrics
        old = workers_of(process.pid)
        assert len(old) == 2
        os.kill(min(old), signal.SIGKILL)
        wait(lambda: len(workers_of(process.pid) - {min(old)}) == 2, 60)  # another one came
        # those who take their place load before they take connections: clients wait, and no 503
        os.kill(max(old), signal.SIGKILL)
        wait(lambda: len(workers_of(process.pid) - old) == 2, 60)
        assert httpx.post(url + "/embed", json=body, headers=key, timeout=90).status_code == 200
        wait(lambda: get(url + "/ready") == 200, 60)
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
        reader.join(10)
    assert code == 0, "".join(logged)
    assert "天" not in "".join(logged) and '"route": "/embed"' in "".join(logged)
    assert f"tianci: worker {max(old)} ended (-9); another one starts\n" in logged
    assert f"tianci: worker {min(old)} ended (-9); another one starts\n" in logged


def workers_of(pid: int) -> set[int]:
    found = subprocess.run(
        ["pgrep", "-P", str(pid), "-f", "spawn_main"], capture_output=True, text=True, check=False
    )
    return {int(one) for one in found.stdout.split()}


def get(url: str) -> int:
    try:
        return int(httpx.get(url, timeout=30).status_code)
    except httpx.TransportError:
        return 0


def post(url: str, body: Any, headers: dict[str, str]) -> int:
    try:
        return int(httpx.post(url, json=body, headers=headers, timeout=30).status_code)
    except httpx.TransportError:
        return 0


def test_answers_are_sent_at_once() -> None:
    """asyncio sets TCP_NODELAY only on sockets whose protocol is named; else each answer waits."""
    import socket

    from tianci.serve.run import bind

    with bind("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP
