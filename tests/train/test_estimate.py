"""What is tried before the first step is no larger than a pass of the run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tianci.train import estimate


@pytest.mark.parametrize(
    ("one_pass", "tried"), [(None, 400), (1000, 400), (400, 400), (250, 200), (100, 100), (60, 100)]
)
def test_one_pass_is_tried(
    monkeypatch: pytest.MonkeyPatch, one_pass: int | None, tried: int
) -> None:
    """Four sequences of 100 tokens; a sequence that is longer than a pass goes alone."""
    seen: list[int] = []

    def told(model: Any, goal: Any, batch: Any, device: str, bf16: bool) -> float:
        seen.append(batch.layout.tokens)
        return 7.0

    monkeypatch.setattr(estimate.probe, "tokens_per_second", told)
    pool = SimpleNamespace(
        batch=lambda numbers: SimpleNamespace(layout=SimpleNamespace(tokens=100 * len(numbers)))
    )
    model: Any = SimpleNamespace(model=None, heads={})
    goal: Any = None
    assert estimate.speed(model, goal, pool, np.arange(4), "cpu", False, one_pass) == 7.0
    assert seen == [tried]


@pytest.mark.parametrize(
    ("printed", "code", "found"),
    [("2.5\n", 0, 2.5), ("onednn_verbose,v1,info,cpu\n1.25\n", 0, 1.25), ("", -4, None)],
)
def test_what_trying_bf16_says(
    monkeypatch: pytest.MonkeyPatch, printed: str, code: int, found: float | None
) -> None:
    """The library may write its own lines before; an illegal instruction ends the process."""
    done = SimpleNamespace(stdout=printed, returncode=code)
    monkeypatch.setattr(estimate.probe.subprocess, "run", lambda *_, **__: done)
    assert estimate.probe.bf16_speed.__wrapped__() == found
