"""Memory that runs out: smaller pieces, the same losses, and it is said."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.mishaps.conftest import SIZES, Train, log, saved_state
from tianci.errors import Failed, Stopped
from tianci.train import fitting
from tianci.train.loop import Learner, Loop
from tianci.train.settings import Train as TrainSettings

SAID = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: x"
ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Any:
    """room(tokens): a forward pass of more tokens fails; the failed sizes are listed."""
    good = Learner.forward

    def of(tokens: int, error: BaseException | None = None) -> list[int]:
        failed: list[int] = []

        def narrow(self: Learner, batch: Any, counts: Any) -> Any:
            result = good(self, batch, counts)  # memory also runs out late, in the second piece
            if len(batch.tokens) > tokens:
                failed.append(len(batch.tokens))
                raise error or RuntimeError(SAID)
            return result

        monkeypatch.setattr(Learner, "forward", narrow)
        return failed

    return of


def held(run: Path) -> list[float]:
    return [entry["held"]["masked"]["loss"] for entry in log(run, "held")]


@pytest.mark.parametrize(
    "error", [RuntimeError(SAID), MemoryError(), torch.OutOfMemoryError("CUDA out of memory")]
)
def test_half_the_tokens_and_the_same_losses(
    train: Train, room: Any, tmp_path: Path, error: BaseException
) -> None:
    values = {"steps": 6, "lr": 1e-3, "evaluate_every": 1, "batch_tokens": 512}
    train(tmp_path / "whole", **values)
    failed = room(150, error)
    train(tmp_path / "narrow", **values)
    assert failed and max(failed) > 300
    notes = log(tmp_path / "narrow", "memory")
    assert notes and "memory ran out with" in notes[0]["message"]
    sizes = [note["micro_tokens"] for note in notes]
    assert sizes[0] == failed[0] // 2 and sizes == sorted(sizes, reverse=True)
    assert all(note["step"] == notes[0]["step"] for note in notes)  # found once, kept for good
    assert saved_state(tmp_path / "narrow")["micro_tokens"] == sizes[-1]
    ours, theirs = held(tmp_path / "narrow"), held(tmp_path / "whole")
    assert len(ours) == len(theirs) == 6
    assert max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) < 1e-5


def test_a_resumed_run_remembers_what_fits(train: Train, room: Any, tmp_path: Path) -> None:
    good = Learner.forward
    failed = room(100)
    narrow, calls = Learner.forward, []

    def stopping(self: Learner, batch: Any, counts: Any) -> Any:
        calls.append(len(batch.tokens))
        if len(calls) == 12:
            os.kill(os.getpid(), signal.SIGINT)
        return narrow(self, batch, counts)

    Learner.forward = stopping  # type: ignore[method-assign]
    try:
        with pytest.raises(Stopped):
            train(tmp_path / "run", steps=12)
    finally:
        Learner.forward = good  # type: ignore[method-assign]
    before = len(failed)
    room(100)
    train(resume=tmp_path / "run")
    assert before and len(failed) == before
    assert len(log(tmp_path / "run", "memory")) >= 1


def test_every_attempt_asks_for_less() -> None:
    """Two sequences may share a piece of 70 tokens although 35 were asked: 35 again is no help."""
    nothing: Any = None
    loop = Loop(nothing, nothing, nothing, TrainSettings(micro_tokens=8192), 1e-3, 0.1, nothing)
    asked = []
    for _ in range(4):
        loop._shrink([70, 40], [np.arange(2), np.arange(1)])
        asked.append(loop.state.micro_tokens)
    assert asked == [35, 17, 8, 4]
    with pytest.raises(fitting.TooLarge, match="a single sequence of 40 tokens"):
        loop._shrink([40], [np.arange(1)])


def test_a_sequence_that_does_not_fit_is_told(train: Train, room: Any, tmp_path: Path) -> None:
    room(3)
    with pytest.raises(Failed, match="not suffice for a single sequence of") as raised:
        train(tmp_path / "run", steps=4)
    assert "\n" not in str(raised.value)


def test_other_errors_are_not_about_memory(train: Train, room: Any, tmp_path: Path) -> None:
    assert fitting.ran_out(RuntimeError(SAID)) and fitting.ran_out(MemoryError())
    assert not fitting.ran_out(RuntimeError("shapes do not fit"))
    room(10, RuntimeError("shapes do not fit"))
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        train(tmp_path / "run", steps=2)


NARROW = """
import sys
from tianci.train.loop import Learner, Loop
from tianci.train.settings import Train as TrainSettings
import tianci, json, os
good = Learner.forward
def narrow(self, batch, counts):
    if os.environ.get("RANK") == "1" and len(batch.tokens) > 100:
        raise MemoryError
    return good(self, batch, counts)
Learner.forward = narrow
tianci.pretrain(**json.loads(sys.argv[1]))
"""


def test_all_processes_agree_when_one_runs_out(train: Train, corpus: Path, tmp_path: Path) -> None:
    """The second of two processes has less memory: nobody waits for ever, the losses stay."""
    values: dict[str, Any] = {
        "steps": 5, "lr": 1e-3, "evaluate_every": 1, "batch_tokens": 512, "save_every": 2,
    }  # fmt: skip
    train(tmp_path / "one", **values)
    script = tmp_path / "narrow.py"
    script.write_text(NARROW)
    told = {
        **values, "corpus": str(corpus), "preset": "tiny", "out": str(tmp_path / "two"),
        "model": SIZES, "objective": "masked", "length": 48, "dropout": 0.0,
        "precision": "float32",
    }  # fmt: skip
    result = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         str(script), json.dumps(told)],
        capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-3000:]
    assert log(tmp_path / "two", "memory")
    ours, theirs = held(tmp_path / "two"), held(tmp_path / "one")
    assert len(ours) == 5
    assert max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) < 1e-5
