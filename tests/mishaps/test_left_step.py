"""A signal in the middle of a long step: the step is left, nothing of it stays, and it is taken
again."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.mishaps.conftest import Train, content, log, saved_state
from tianci.errors import Stopped
from tianci.train.loop import Learner, Loop
from tianci.train.presets import PACES

PIECES = {
    "steps": 6,
    "batch_tokens": 512,
    "micro_tokens": 100,
    "dropout": 0.1,
    "save_every": 100,
    "log_every": 1,
}


@pytest.fixture
def signal_at(monkeypatch: pytest.MonkeyPatch) -> Any:
    """signal_at(n): SIGTERM arrives in the n-th forward pass; the passes are counted."""
    good, run, inside = Learner.forward, Loop.run, [False]

    def marked(loop: Loop) -> None:
        inside[0] = True
        try:
            run(loop)
        finally:
            inside[0] = False

    monkeypatch.setattr(Loop, "run", marked)

    def of(number: int) -> list[int]:
        passes: list[int] = []

        def forward(self: Learner, batch: Any, counts: Any) -> Any:
            if self.training and inside[0]:  # not in the estimate before, where nobody listens
                passes.append(len(batch.tokens))
                if len(passes) == number:
                    os.kill(os.getpid(), signal.SIGTERM)
            return good(self, batch, counts)

        monkeypatch.setattr(Learner, "forward", forward)
        return passes

    return of


@pytest.mark.parametrize("number", [1, 2, 14])  # in the first step, and in a later one
def test_left_between_two_pieces(train: Train, signal_at: Any, tmp_path: Path, number: int) -> None:
    passes = signal_at(0)
    train(tmp_path / "whole", **PIECES)
    a_step = len(passes) // 6
    assert a_step >= 5
    passes = signal_at(number)
    with pytest.raises(Stopped) as stopped:
        train(tmp_path / "run", **PIECES)
    assert len(passes) == number  # the piece in hand, and no other
    step = saved_state(tmp_path / "run")["step"]
    assert step == (number - 1) // a_step and f"stopped at step {step}, saved" in str(stopped.value)
    signal_at(0)
    train(resume=tmp_path / "run")
    assert content(tmp_path / "run", 6) == content(tmp_path / "whole", 6)
    ours, theirs = (
        [entry["loss"] for entry in log(tmp_path / name, "step")] for name in ("run", "whole")
    )
    assert ours == theirs


def test_a_piece_of_a_large_model_is_short() -> None:
    """BERT-base reads some 200 tokens a second on one core: a piece must not take a minute."""
    assert PACES[768].micro_tokens <= 1024 and PACES[1024].micro_tokens <= 512
