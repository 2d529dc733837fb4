"""Batching: requests that wait together run together, and none of them notices."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.serve.conftest import Running
from tests.serve.test_server import close
from tianci.serve.batcher import Batcher
from tianci.serve.predictor import load
from tianci.serve.refusal import Refusal
from tianci.serve.work import Embed

Start = Callable[..., Running]


@dataclass(frozen=True, eq=False)
class Doubling:
    """Doubles numbers; 13 is poison. The first batch waits until it is let go."""

    patient: bool = False
    batches: list[list[int]] = field(default_factory=list)
    begun: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)

    def run(self, items: Sequence[int], step: Callable[[], None]) -> list[int]:
        self.batches.append(list(items))
        self.begun.set()
        assert self.go.wait(10)
        if 13 in items:
            raise ValueError("a secret text")
        return [2 * item for item in items]


async def begun(kind: Doubling) -> None:
    await asyncio.to_thread(kind.begun.wait, 10)


def test_a_queue_that_takes_too_long_is_full() -> None:
    async def scene() -> None:
        kind, batcher = Doubling(), Batcher(10, 1000, queue_seconds=2.0)
        batcher._pace[Doubling] = 0.25  # seconds per token
        first = batcher.submit(kind, [1], [1])
        await begun(kind)
        rest = [batcher.submit(kind, [n], [4]) for n in (2, 3)]
        assert batcher.ahead == 2.0 and not batcher.full and batcher.seconds() == 2
        rest.append(batcher.submit(kind, [4], [4]))  # 2 seconds may stand before it
        assert batcher.ahead == 3.0 and batcher.full and batcher.seconds() == 3
        with pytest.raises(Refusal) as refused:
            batcher.submit(kind, [5], [1])
        assert refused.value.status == 429 and refused.value.headers == {"Retry-After": "3"}
        patient = Doubling(patient=True)
        patient.go.set()
        late = batcher.submit(patient, [6], [100])  # takes its time, and lets others in
        assert batcher.ahead == 3.0
        batcher.drop(rest.pop())
        assert batcher.ahead == 2.0 and not batcher.full
        kind.go.set()
        assert [await job.future for job in (first, *rest, late)] == [[2], [4], [6], [12]]
        assert batcher.ahead == 0.0 and 0 < batcher._pace[Doubling] < 0.25  # it was quicker
        batcher.stop()

    asyncio.run(scene())


def test_what_waits_together_runs_together_within_the_budget() -> None:
    async def scene() -> None:
        kind, other, batcher = Doubling(), Doubling(), Batcher(10, 1000)
        other.go.set()
        first = batcher.submit(kind, [1], [1])
        await begun(kind)
        rest = [batcher.submit(kind, [n, n + 1], [4, 4]) for n in (20, 30)]
        between = batcher.submit(other, [7], [1])
        assert batcher.waiting == 17 and batcher.inputs == 5
        kind.go.set()
        assert await first.future == [2]
        assert [await job.future for job in rest] == [[40, 42], [60, 62]]
        assert await between.future == [14]
        assert kind.batches == [[1], [20, 21], [30, 31]]  # 8 tokens each: 10 is the budget
        assert batcher.waiting == batcher.inputs == 0
        batcher.stop()

    asyncio.run(scene())


def test_poison_fails_alone() -> None:
    async def scene() -> None:
        kind, batcher = Doubling(), Batcher(100, 1000)
        first = batcher.submit(kind, [0], [1])
        await begun(kind)
        jobs = [
            batcher.submit(kind, items, [1] * len(items)) for items in ([1, 2], [3, 13, 4], [5])
        ]
        kind.go.set()
        assert await first.future == [0]
        good, bad, last = await asyncio.gather(*(j.future for j in jobs), return_exceptions=True)
        assert good == [2, 4] and last == [10] and isinstance(bad, ValueError)
        batcher.stop()

    asyncio.run(scene())


def test_dropped_work_is_not_begun_and_a_full_queue_refuses() -> None:
    async def scene() -> None:
        kind, batcher = Doubling(), Batcher(4, 10)
        first = batcher.submit(kind, [1], [1])
        await begun(kind)
        large = batcher.submit(kind, [2] * 20, [1] * 20)  # larger than the queue, but it is empty
        with pytest.raises(Refusal) as refused:
            batcher.submit(kind, [3], [1])
        assert refused.value.status == 429 and int(refused.value.headers["Retry-After"]) >= 1
        assert batcher.full
        batcher.drop(large)
        assert batcher.waiting == 0 and not batcher.full
        after = batcher.submit(kind, [4], [1])
        kind.go.set()
        assert await first.future == [2] and await after.future == [8]
        assert kind.batches == [[1], [4]]
        batcher.stop()

    asyncio.run(scene())


def test_quick_work_runs_between_the_steps_of_patient_work() -> None:
    order: list[str] = []

    @dataclass(frozen=True)
    class Patient:
        patient: bool = True

        def run(self, items: Sequence[int], step: Callable[[], None]) -> list[int]:
            order.append("begins")
            waited.wait(10)
            step()
            order.append("ends")
            return list(items)

    @dataclass(frozen=True)
    class Quick:
        patient: bool = False

        def run(self, items: Sequence[int], step: Callable[[], None]) -> list[int]:
            order.append("quick")
            return list(items)

    waited = threading.Event()

    async def scene() -> None:
        batcher = Batcher(10, 100)
        jobs = [batcher.submit(Patient(), [1], [1]), batcher.submit(Quick(), [2], [1])]
        jobs.append(batcher.submit(Patient(), [3], [1]))
        waited.set()
        await asyncio.gather(*(job.future for job in jobs))
        batcher.stop()

    asyncio.run(scene())
    assert order[:3] == ["begins", "quick", "ends"]


def test_company_changes_no_answer(running: Start, folders: dict[str, Path]) -> None:
    """Random requests at once to several models, compared with each of them alone."""
    server = running("base", "classify", "tag", "first", "second", limits={"batch_tokens": 64})
    rng = np.random.default_rng(0)
    letters = list("我你他们有的是不了在人大中到说国和地上天气今错雨伞")

    def text() -> str:
        return "".join(rng.choice(letters, int(rng.integers(1, 40))))

    asked: list[tuple[str, dict[str, Any]]] = []
    for _ in range(12):
        asked.append(("/embed", {"inputs": [text() for _ in range(int(rng.integers(1, 5)))]}))
        for name in ("classify", "first", "second"):
            asked.append(("/predict", {"inputs": [[text()], [text(), text()[:5]]],
                                       "model": name, "truncate": True}))  # fmt: skip
        asked.append(("/tag", {"inputs": text()}))
        asked.append(("/fill", {"inputs": text()[:30] + "[MASK]"}))
        asked.append(("/score", {"inputs": text()[:6]}))
    alone = [server.post(path, body).json() for path, body in asked]
    order = rng.permutation(len(asked)).tolist()
    with ThreadPoolExecutor(12) as pool:
        together = list(pool.map(lambda n: server.post(*asked[n]).json(), order))
    for n, found in zip(order, together, strict=True):
        close(found, alone[n])


def test_a_poison_request_fails_and_its_neighbours_do_not(
    running: Start, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, expected = running("base"), load(folders["base"]).embed("我们", normalize=True)
    plain, entered, release = Embed.run, threading.Event(), threading.Event()
    poison = server.service.models.served[0].predictor.tokenizer.ids(["雨"])[0]

    def run(self: Embed, items: Sequence[list[int]], step: Any) -> list[Any]:
        entered.set()
        assert release.wait(10)
        if poison in items:
            raise RuntimeError("雨 is a secret")
        return plain(self, items, step)

    monkeypatch.setattr(Embed, "run", run)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(server.post, "/embed", {"inputs": "天"})
        assert entered.wait(10)
        futures = [
            pool.submit(server.post, "/embed", {"inputs": t}) for t in ("我们", "雨", "我们")
        ]
        while server.service.batcher.inputs < 3:
            pass
        release.set()
        answers = [one.result() for one in (first, *futures)]
    assert [one.status_code for one in answers] == [200, 200, 424, 200]
    np.testing.assert_allclose(answers[3].json()[0], expected, atol=1e-5)
    assert answers[2].json() == {"error": "Inference failed", "error_type": "Backend"}
    assert "secret" not in server.written.getvalue() and "RuntimeError" in server.written.getvalue()
