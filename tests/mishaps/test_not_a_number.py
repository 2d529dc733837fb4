"""Loss, gradients, weights and data without a number: skipped, then back, then stopped."""

from __future__ import annotations

import json
import math
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import tianci
from tests.mishaps.conftest import Train, content, log, saved_state
from tianci import cli, manifest
from tianci.errors import Stopped
from tianci.train import trouble
from tianci.train.loop import Loop
from tianci.train.session import TrainingError
from tianci.train.state import State
from tianci.tune.rows_source import RowsSource

Plant = Callable[[Loop, torch.nn.Module, torch.Tensor], None]


def loss(loop: Loop, learner: torch.nn.Module, sums: torch.Tensor) -> None:
    sums[0, 0] = math.nan


def gradient(loop: Loop, learner: torch.nn.Module, sums: torch.Tensor) -> None:
    wanted = next(p for p in learner.parameters() if p.grad is not None)
    assert wanted.grad is not None
    wanted.grad.view(-1)[0] = math.inf


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """plant(fault, steps, times): the fault comes in these steps, so often each."""
    good = Loop._gradients

    def into(fault: Plant, steps: Any, times: int = 10**6) -> list[int]:
        seen: list[int] = []

        def bad(self: Loop, learner: Any, *rest: Any) -> Any:
            found = good(self, learner, *rest)
            step = self.state.step + 1
            if step in steps and seen.count(step) < times:
                seen.append(step)
                fault(self, learner, found[0])
            return found

        monkeypatch.setattr(Loop, "_gradients", bad)
        return seen

    return into


@pytest.mark.parametrize("fault", [loss, gradient])
def test_a_step_without_a_number_is_skipped(
    train: Train, plant: Any, tmp_path: Path, fault: Plant
) -> None:
    """Weights and moments stay as they were; it is counted and noted; the run goes on."""
    plant(fault, {3, 6})
    summary = train(tmp_path / "run", steps=6, save_every=1, keep=10)
    assert summary["steps"] == 6
    [first, second] = log(tmp_path / "run", "skip")
    assert (first["step"], first["skipped"], second["step"], second["skipped"]) == (3, 1, 6, 2)
    assert "step 3: the loss is not a number; the step is skipped" in first["message"]
    steps = [entry["loss"] for entry in log(tmp_path / "run", "step")]
    assert steps and all(math.isfinite(value) for value in steps)
    state = saved_state(tmp_path / "run")
    assert (state["step"], state["skipped"], state["bad"], state["rate"]) == (6, 2, 2, 1.0)
    # nothing is saved on schedule while skipped steps count; the end of the run always is
    names = sorted(p.name for p in (tmp_path / "run/checkpoints").iterdir())
    assert names == [f"step-{n:08d}" for n in (1, 2, 6)]
    plant(fault, {3})
    train(tmp_path / "short", steps=3, save_every=1, keep=10, schedule="constant", warmup=0.0)
    assert content(tmp_path / "short", 3) == content(tmp_path / "short", 2)
    assert content(tmp_path / "short", 2) != content(tmp_path / "short", 1)


def test_three_of_them_lead_back_with_half_the_rate(
    train: Train, plant: Any, tmp_path: Path
) -> None:
    plant(gradient, {7, 8, 9}, times=1)  # it comes once: with the lower rate it is gone
    steady = {"schedule": "constant", "warmup": 0.0, "save_every": 5, "keep": 10, "lr": 1e-3}
    train(tmp_path / "run", steps=12, **steady)
    [entry] = log(tmp_path / "run", "return")
    assert (entry["step"], entry["failed"], entry["rate"], entry["skipped"]) == (5, 9, 0.5, 3)
    assert "back to step 5, from there on with 0.5 of the rate" in entry["message"]
    assert log(tmp_path / "run", "step")[-1]["lr"] == pytest.approx(5e-4)
    state = saved_state(tmp_path / "run")
    assert (state["step"], state["rate"], state["returns"], state["bad"]) == (12, 0.5, 1, 0)
    numbers = [entry["step"] for entry in log(tmp_path / "run", "step")]
    assert numbers == sorted(set(numbers))
    # the same by hand: stopped after step 5, the rate halved in its state, and on
    plant(lambda *_: os.kill(os.getpid(), signal.SIGINT), {5}, times=1)
    with pytest.raises(Stopped):
        train(tmp_path / "hand", steps=12, **steady)
    folder = tmp_path / "hand/checkpoints/step-00000005"
    path = folder / "resume/state.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "rate": 0.5}))
    manifest.seal(folder)
    train(resume=tmp_path / "hand")
    assert content(tmp_path / "hand", 12) == content(tmp_path / "run", 12)


def test_without_a_checkpoint_it_goes_back_to_the_beginning(
    train: Train, plant: Any, tmp_path: Path
) -> None:
    """Also when it is the weights that are broken: they are the first ones again."""

    def weights(loop: Loop, learner: torch.nn.Module, sums: torch.Tensor) -> None:
        with torch.no_grad():
            next(learner.parameters()).fill_(math.nan)
        sums[0, 0] = math.nan

    plant(weights, {2}, times=1)
    summary = train(tmp_path / "run", steps=6, lr=1e-3)
    [entry] = log(tmp_path / "run", "return")
    assert (entry["step"], entry["failed"]) == (0, 4)
    assert math.isfinite(summary["held"]["masked"]["loss"])
    assert saved_state(tmp_path / "run")["returns"] == 1
    tianci.load(tmp_path / "run")  # refuses weights that are not finite


def test_a_resumed_run_decides_the_same(train: Train, plant: Any, tmp_path: Path) -> None:
    """Stopped between two skipped steps and between return and end: the same bits, the same log."""
    values = {"steps": 14, "save_every": 4, "keep": 10, "lr": 1e-3, "dropout": 0.1}
    bad = {6, 7, 9}

    def until_slower(loop: Loop, learner: torch.nn.Module, sums: torch.Tensor) -> None:
        if loop.state.returns == 0:
            loss(loop, learner, sums)

    plant(until_slower, bad)
    train(tmp_path / "whole", **values)
    assert [e["failed"] for e in log(tmp_path / "whole", "return")] == [9]
    for number, stops in enumerate([{7}, {8}, {11}]):
        run = tmp_path / f"stopped-{number}"
        stopped: list[int] = []

        def stopping(loop: Loop, learner: torch.nn.Module, sums: torch.Tensor) -> None:
            step = loop.state.step + 1
            if step in bad:
                until_slower(loop, learner, sums)
            if step in stops and not stopped:  # noqa: B023
                stopped.append(step)  # noqa: B023
                os.kill(os.getpid(), signal.SIGINT)

        plant(stopping, bad | stops)
        with pytest.raises(Stopped):
            train(run, **values)
        train(resume=run)
        assert content(run, 14) == content(tmp_path / "whole", 14)
        ours, theirs = saved_state(run), saved_state(tmp_path / "whole")
        ours.pop("seconds"), theirs.pop("seconds")
        assert ours == theirs
        events = ("skip", "return", "memory")
        assert log(run, *events) == log(tmp_path / "whole", *events)


def test_when_nothing_helps_it_stops_with_the_batch(
    train: Train, plant: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(gradient, range(6, 1000))
    run = tmp_path / "run"
    with pytest.raises(TrainingError) as raised:
        train(run, steps=40, save_every=4)
    message = str(raised.value)
    assert "not a number" in message and "\n" not in message
    assert "lowered 3 times" in message and str(run / "batch-step-8.json") in message
    assert cli._complain(raised.value) == 1
    assert capsys.readouterr().err.startswith("tianci: step 8: the loss is not a number any more")
    batch = json.loads((run / "batch-step-8.json").read_text())
    assert batch["step"] == 8 and batch["gradient"] in ("inf", "nan")
    assert "公园" in "".join(row["text"] for row in batch["sequences"]).replace(" ", "") or (
        len(batch["sequences"]) > 1
    )
    assert all(row["ids"] for row in batch["sequences"])
    assert len(batch["targets"]["masked_is"]) == len(batch["targets"]["masked_at"])
    assert [e["rate"] for e in log(run, "return")] == [0.5, 0.25, 0.125]
    assert [e["fault"] for e in log(run, "finding")][-1] == "nan"
    folders = sorted((run / "checkpoints").iterdir())
    assert folders and not any(manifest.faults(folder) for folder in folders)


def test_skipped_steps_are_forgotten_after_some_good_ones() -> None:
    state = State()
    assert trouble.count_bad(state) == trouble.count_bad(state) == "skip"
    for _ in range(trouble.FORGOTTEN - 1):
        trouble.count_good(state)
    assert state.bad == 2
    trouble.count_good(state)
    assert (state.bad, state.skipped) == (0, 2)
    assert [trouble.count_bad(state) for _ in range(3)] == ["skip", "skip", "return"]
    state.returns = trouble.RETURNS
    state.bad = 0
    assert [trouble.count_bad(state) for _ in range(3)] == ["skip", "skip", "stop"]


def test_labels_without_a_number_in_fine_tuning(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One poisoned row: its batch is skipped in every epoch, the trial ends well."""
    rows = [{"text": "天" * (n % 5 + 1), "score": n % 5 + 1.0} for n in range(40)]
    for name in ("train", "dev"):
        lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    good = RowsSource.batch

    def poisoned(self: RowsSource, numbers: Any) -> Any:
        batch = good(self, numbers)
        if 17 in numbers.tolist():
            for value in (batch.targets or {}).values():
                if torch.is_tensor(value) and value.is_floating_point():
                    value[0] = math.nan
        return batch

    monkeypatch.setattr(RowsSource, "batch", poisoned)
    summary = tianci.finetune(
        "regress", model=base, train=tmp_path / "train.jsonl", dev=tmp_path / "dev.jsonl",
        out=tmp_path / "out", epochs=3, lr="1e-3", batch=4, dropout=0.0,
        column=["number=score"], force=True,
    )  # fmt: skip
    assert all(math.isfinite(value) for value in summary["dev"].values() if value is not None)
    for trial in (tmp_path / "out/trials").iterdir():
        assert len(log(trial, "skip")) == 3 and not log(trial, "return")


def test_a_trial_without_numbers_ends_alone(
    base: Path, reviews: dict[str, Path], tmp_path: Path, plant: Any
) -> None:
    """In a sweep the other rates go on; a single trial says what happened, with its batch."""

    def hot(loop: Loop, learner: torch.nn.Module, sums: torch.Tensor) -> None:
        if loop.lr > 5e-3:
            loss(loop, learner, sums)

    plant(hot, range(1000))
    names = {"model": base, "train": reviews["train"], "dev": reviews["dev"], "batch": 60,
             "epochs": 2, "dropout": 0.0}  # fmt: skip
    summary = tianci.finetune("classify", out=tmp_path / "sweep", sweep=["lr=1e-3,1e-2"], **names)
    assert [trial["lr"] < 5e-3 for trial in summary["trials"]] == [True]
    assert any("not a number" in note for note in summary["notes"])
    with pytest.raises(tianci.errors.Failed, match="not a number") as raised:
        tianci.finetune("classify", out=tmp_path / "one", lr="1e-2", **names)
    [batch] = (tmp_path / "one/trials").glob("*/batch-step-*.json")
    assert str(batch) in str(raised.value) and "\n" not in str(raised.value)
