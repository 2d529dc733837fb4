"""A run that is killed again and again, half of the times inside a save: it loses nothing."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

from tests.faults.children import Children
from tests.faults.runs import Runs, assert_same, newest_step
from tianci.train import journal

KILLS = 60  # benchmarks/soak_faults.py takes 500
LONG = ("--steps", "40", "--evaluate-every", "2")  # so that every save has a score to lose
IN_A_SAVE = 45  # points of the start of a sitting; behind them nearly all points lie in saves


def saved_by(run: Path) -> int:
    """The newest checkpoint that the run itself said it had written; -1 before the first."""
    log = run / "log.jsonl"
    said = journal.read(log) if log.exists() else []
    return max((e["step"] for e in said if e["event"] == "save"), default=-1)


def kill_often(
    runs: Runs, children: Children, kind: str, folder: Path, kills: int, dice: random.Random
) -> list[int]:
    """Kills a run until it has been killed so often; the steps it could go on from each time.

    A run that gets to its end is compared with an undisturbed one, and the next one begins.
    """
    whole, steps, count = folder / "whole", [], 0
    code, child = children.run(*runs.command(kind, whole, *LONG))
    assert code == 0, child.said
    out, last = folder / "killed-0", -1
    while len(steps) < kills:
        at = dice.randrange(IN_A_SAVE, 4 * IN_A_SAVE) if len(steps) % 2 else 0
        child = children.start(*runs.command(kind, out, *LONG), die_at=at, below=out)
        if not at:
            time.sleep(dice.random() * 0.6)
            child.kill()
        code = children.wait(child)
        if code == 0 or "is finished" in child.said:  # it may die between its end and its exit
            assert_same(out, whole)
            count += 1
            out, last = folder / f"killed-{count}", -1
            continue
        assert code == -signal.SIGKILL, f"{kind} could not go on: {child.said}"
        found = newest_step(out)  # raises if no whole one is left
        assert found >= max(last, saved_by(out)), "a finished checkpoint was lost"
        last = found
        steps.append(found)
    code, child = children.run(*runs.command(kind, out, *LONG))
    assert code == 0 or "is finished" in child.said, child.said
    assert_same(out, whole)
    return steps


def test_no_finished_checkpoint_is_lost(runs: Runs, children: Children, tmp_path: Path) -> None:
    dice = random.Random(7)
    steps = kill_often(runs, children, "masked+next_sentence", tmp_path, KILLS, dice)
    assert len(set(steps)) > 5  # it came forward, and was killed at different places


def test_every_point_of_the_end_of_a_tuning_with_adapters(
    runs: Runs, children: Children, tmp_path: Path
) -> None:
    """The last thing written marks a finished run; before it every kill leaves one that goes on."""
    more = ("--strategy", "adapters", "--adapter-size", "4", "--steps", "2", "--save-every", "9")
    _, counted = children.run(*runs.command("classify", tmp_path / "counted", *more),
                              die_at=10**9, below=tmp_path / "counted", count=True)  # fmt: skip
    points = int(counted.said.rpartition("points: ")[2])
    assert points > 60
    for at in range(points - 30, points + 1, 2):
        out = tmp_path / str(at)
        code, _ = children.run(*runs.command("classify", out, *more), die_at=at, below=out)
        assert code == -signal.SIGKILL
        code, child = children.run(*runs.command("classify", out, *more))
        if code:
            assert "is finished" in child.said and (out / "report.html").exists()
        else:
            assert_same(out, tmp_path / "counted")
