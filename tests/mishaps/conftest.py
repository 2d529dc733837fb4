"""The small corpus of the training tests, and runs on it that take a second."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.train.conftest import corpus as corpus
from tests.tune.conftest import base as base
from tests.tune.conftest import reviews as reviews
from tianci.train import session as module

SIZES = {"width": 32, "layers": 1, "heads": 2, "hidden": 64, "positions": 64}
Train = Callable[..., dict[str, Any]]


@pytest.fixture
def train(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> Train:
    """Trains for some steps in this process; resume=DIR goes on."""
    monkeypatch.setattr(module.Session, "_pictures", lambda self: None)  # seconds of drawing

    def run(out: Path | None = None, resume: Path | None = None, **values: Any) -> dict[str, Any]:
        import tianci

        if resume:
            return tianci.pretrain(resume=str(resume))
        told = {"length": 48, "batch_tokens": 256, "dropout": 0.0, "precision": "float32"}
        return tianci.pretrain(
            corpus=corpus, preset="tiny", out=out, model=SIZES, objective="masked",
            **{**told, **values},
        )  # fmt: skip

    return run


def log(run: Path, *events: str) -> list[dict[str, Any]]:
    """The entries of some kinds in a run's log."""
    entries = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [entry for entry in entries if entry["event"] in events]


def saved_state(run: Path) -> dict[str, Any]:
    """The state in the newest checkpoint."""
    folder = sorted((run / "checkpoints").glob("step-*"))[-1]
    found: dict[str, Any] = json.loads((folder / "resume" / "state.json").read_text())
    return found


def content(run: Path, step: int) -> tuple[bytes, bytes]:
    """Weights and moments of a checkpoint."""
    folder = run / "checkpoints" / f"step-{step:08d}"
    names = ("model.safetensors", "resume/optimizer.safetensors")
    one, two = ((folder / name).read_bytes() for name in names)
    return one, two
