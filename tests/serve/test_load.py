"""Too many requests, requests of all sizes, requests that are no requests: counts, and no fault of
the server. No times here: the machine may be busy. The long ones, with times: `make soak`."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable

import pytest

pytest.importorskip("uvicorn")

from benchmarks.http_load import closed_loop, open_loop, percentile, request

from tests.serve.abuse import abuse
from tests.serve.conftest import Live, wait

MODELS = ("base", "classify", "pair", "tag", "answer", "choose", "similar", "gpt2")


def quiet(server: Live) -> None:
    """Nothing is left over: no request, nothing in the queue."""
    batcher = server.service.batcher
    wait(lambda: server.service.open == 0)
    assert (batcher.waiting, batcher.inputs, batcher.ahead) == (0, 0, 0.0)


def test_beyond_its_limits_it_refuses_and_goes_on(live: Callable[..., Live]) -> None:
    server = live("base", queue_tokens=120, batch_tokens=60, concurrent=24)
    messages = itertools.cycle([request("/embed", {"inputs": ["今天天气不错"] * 4})])
    load = asyncio.run(closed_loop(server.port, itertools.islice(messages, 600), clients=48))
    found = load.statuses
    assert set(found) == {200, 429} and sum(found.values()) == 600
    assert found[200] > 20 and found[429] > 20
    quiet(server)
    after = asyncio.run(closed_loop(server.port, itertools.islice(messages, 20), clients=1))
    assert after.statuses == {200: 20}


def test_a_rate_is_kept_whatever_comes_back(live: Callable[..., Live]) -> None:
    server = live("base")
    messages = itertools.cycle([request("/tokenize", {"inputs": "天气"})])
    load = asyncio.run(open_loop(server.port, messages, rate=50, seconds=0.5))
    assert load.statuses == {200: len(load.answers)} and 20 <= len(load.answers) <= 26
    assert percentile([3.0, 1.0, 2.0, 4.0], 0.5) == 3.0 and percentile([1.0], 0.99) == 1.0


def test_all_sizes_and_routes(live: Callable[..., Live]) -> None:
    server, dice = live("base", "classify"), random.Random(0)

    def body(number: int) -> bytes:
        texts = ["天气the cat " * dice.randint(1, 40) for _ in range(dice.choice((1, 2, 16)))]
        path = ("/embed", "/v1/embeddings", "/predict", "/tokenize")[number % 4]
        inputs = [[text] for text in texts] if path == "/predict" else texts
        field = "input" if path.startswith("/v1") else "inputs"
        return request(path, {field: inputs, "truncate": True})

    load = asyncio.run(closed_loop(server.port, map(body, range(400)), clients=16))
    found = load.statuses
    # OpenAI's API has no way to have long texts cut
    assert set(found) <= {200, 413} and found[200] >= 300 and sum(found.values()) == 400
    quiet(server)


@pytest.mark.parametrize("seed", [1, 2])
def test_abuse(live: Callable[..., Live], seed: int) -> None:
    server = live(*MODELS, new_tokens=8, inputs=64, body_bytes=200_000)
    result = asyncio.run(abuse(server.port, 400, seed))
    assert result.bad == [] and result.statuses.total() == 400
    assert {200, 400, 413, 422} <= set(result.statuses), result.statuses
    quiet(server)
    message = request("/embed", {"inputs": "天气"})
    assert asyncio.run(closed_loop(server.port, iter([message]), 1)).statuses == {200: 1}
