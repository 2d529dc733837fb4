"""SIGTERM and SIGINT at random times: saved, told how to go on, and gone on with."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from tests.faults.children import Children
from tests.faults.runs import Runs, assert_same, newest_step

LONG = {"masked+next_sentence": ("--steps", "150", "--save-every", "1000"),
        "classify": ("--epochs", "30", "--save-every", "1000", "--patience", "0")}  # fmt: skip
BOTH = (signal.SIGTERM, signal.SIGINT)


def stop_often(
    runs: Runs, children: Children, kind: str, folder: Path, signals: int, dice: random.Random
) -> list[float]:
    """Stops runs by signals until so many have come; how long each took to end."""
    more = LONG[kind]
    whole, out, took, began = folder / "whole", folder / "stopped-0", list[float](), 0
    code, child = children.run(*runs.command(kind, whole, *more))
    assert code == 0, child.said
    while len(took) < signals:
        child = children.start(*runs.command(kind, out, *more))
        number = BOTH[len(took) % 2]
        while not out.with_name(f".{out.name}.lock").exists() and children.done(child) is None:
            time.sleep(0.001)  # a signal before the first line of our own is not our subject
        time.sleep(dice.random() * 0.4)
        if children.done(child) is None:
            child.kill(number)
        sent = time.monotonic()
        code = children.wait(child)
        # it was faster, or the signal came when all was done (now, or in the sitting before)
        if code == 0 or "is finished" in child.said:
            assert_same_but_saves(out, whole)
            began += 1
            out = folder / f"stopped-{began}"
            continue
        assert code == 128 + number, f"{code}: {child.said}"
        assert "Traceback" not in child.said
        took.append(time.monotonic() - sent)
        if "go on with: tianci" in child.said:  # it had begun to train
            place = out if kind in runs.objectives else next((out / "trials").iterdir())
            step = newest_step(place)
            # a signal in the last step of a trial finds it done: its result is what was saved
            assert step >= 0 or (place / "result.json").exists()
            if kind in runs.objectives:
                assert f"stopped at step {step}, saved" in child.said
    code, child = children.run(*runs.command(kind, out, *more))
    assert code == 0 or "is finished" in child.said, child.said
    assert_same_but_saves(out, whole)
    return took


def assert_same_but_saves(run: Path, whole: Path) -> None:
    """A signal saves where an undisturbed run does not, and says so; all else is the same."""
    assert_same(run, whole, without=("save",), moments=False)


@pytest.mark.parametrize("kind", LONG)
def test_saved_and_gone_on(runs: Runs, children: Children, tmp_path: Path, kind: str) -> None:
    took = stop_often(runs, children, kind, tmp_path, 10, random.Random(kind))
    assert len(took) == 10
