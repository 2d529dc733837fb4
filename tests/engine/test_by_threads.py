"""Engines with threads of their own: one for each share of the machine, used side by side."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from tests.engine.models import made
from tests.engine.test_engines import needed
from tianci import engine
from tianci.batch import Batch
from tianci.engine.by_threads import ByThreads


def test_each_number_of_threads_has_its_own_made_once() -> None:
    made_for: list[int] = []
    kept = ByThreads(lambda threads: made_for.append(threads) or object())  # type: ignore[func-returns-value]

    def asked(threads: int) -> object:
        torch.set_num_threads(threads)
        return kept.here()

    usual = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
            first, same = one.submit(asked, 1).result(), other.submit(asked, 1).result()
            second = other.submit(asked, 3).result()
            assert first is same and second is not first
            assert one.submit(asked, 1).result() is first
        assert made_for == [1, 3]
    finally:
        torch.set_num_threads(usual)


@pytest.mark.parametrize("kind", ["onnx", "openvino"])
def test_batches_side_by_side_have_the_answers_of_batches_alone(kind: str) -> None:
    needed(kind)
    model = made("bert", quiet=True)
    running = engine.make(model, kind)
    batches = [Batch.of([[(5 * n + i) % 50 for i in range(4 + n)], [7, 8, 9]]) for n in range(8)]
    usual = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        alone = [running.last(batch) for batch in batches]
        together = threading.Barrier(2)

        def lane(turn: int) -> list[torch.Tensor]:
            torch.set_num_threads(1)
            together.wait(60)
            return [running.last(batch) for batch in (batches if turn else batches[::-1])]

        with ThreadPoolExecutor(2) as lanes:
            backward, forward = lanes.map(lane, range(2))
    finally:
        torch.set_num_threads(usual)
    for expected, one, other in zip(alone, backward[::-1], forward, strict=True):
        assert torch.allclose(one, expected, atol=1e-5)
        assert torch.allclose(other, expected, atol=1e-5)
