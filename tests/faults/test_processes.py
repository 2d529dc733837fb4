"""Two processes: another number of them goes on; a dead one does not leave the other waiting."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path

from tests.faults.children import Children
from tests.faults.runs import Runs, log_of, newest_step, ranks
from tianci.train import state

KIND = "masked+next_sentence"
STEPS = 60  # so many that whoever waits for a checkpoint sees it before the end
PLAIN = ("--dropout", "0", "--steps", str(STEPS), "--keep", "100")  # units drop out by process


def sitting(
    runs: Runs, children: Children, out: Path, processes: int, until: int | None
) -> list[int]:
    """Runs until a checkpoint is there, then kills all; or to the end."""
    names = ranks(processes) if processes > 1 else [{}]
    command = runs.command(KIND, out, *PLAIN)
    started = [children.start(*command, environment=name) for name in names]
    while until is not None and newest_step(out) < until:
        assert children.done(started[0]) is None, started[0].said
        time.sleep(0.01)
    for child in started if until is not None else []:
        child.kill()
    return [children.wait(child) for child in started]


def two_then_one_then_two(runs: Runs, children: Children, folder: Path) -> float:
    """The number of processes changes twice; how far the losses are from those of one process."""
    assert sitting(runs, children, folder / "whole", 1, None) == [0]
    out = folder / "changing"
    assert sitting(runs, children, out, 2, 4)[0] == -signal.SIGKILL
    first = newest_step(out)
    assert sitting(runs, children, out, 1, first + 4)[0] == -signal.SIGKILL
    assert first < newest_step(out) < STEPS
    assert sitting(runs, children, out, 2, None) == [0, 0]
    return same_order_and_losses(out, folder / "whole")


def test_two_then_one_then_two(runs: Runs, children: Children, tmp_path: Path) -> None:
    two_then_one_then_two(runs, children, tmp_path)


def same_order_and_losses(run: Path, whole: Path) -> float:
    """Every step had the same samples; the largest difference between the losses."""
    for folder in state.complete(whole):
        ours, theirs = (
            json.loads((at / "checkpoints" / folder.name / "resume/state.json").read_text())
            for at in (run, whole)
        )
        assert ours["position"] == theirs["position"] and ours["tokens"] == theirs["tokens"]
    steps = [[e for e in log_of(at) if e["event"] == "step"] for at in (run, whole)]
    assert (
        [e["step"] for e in steps[0]] == [e["step"] for e in steps[1]] == list(range(1, STEPS + 1))
    )
    assert [e["tokens"] for e in steps[0]] == [e["tokens"] for e in steps[1]]
    worst = max(abs(a["loss"] - b["loss"]) for a, b in zip(*steps, strict=True))
    held = [[e["held"] for e in log_of(at) if e["event"] == "held"] for at in (run, whole)]
    for a, b in zip(*held, strict=True):
        worst = max(worst, *(abs(a[name]["loss"] - b[name]["loss"]) for name in a))
    assert worst < 1e-5
    return worst


def kill_one(runs: Runs, children: Children, out: Path, dead: int, dice: random.Random) -> float:
    """Kills one of two processes at a random time; how long the other took to end."""
    long, before = ("--steps", "100000"), newest_step(out)
    started = [children.start(*runs.command(KIND, out, *long), environment=n) for n in ranks(2)]
    while newest_step(out) <= before:  # it trains
        assert children.done(started[0]) is None, started[0].said
        time.sleep(0.01)
    time.sleep(dice.random() * 0.3)
    started[dead].kill()
    began = time.monotonic()
    code = children.wait(started[1 - dead])
    said = started[1 - dead].said
    assert children.wait(started[dead]) == -signal.SIGKILL
    assert code == 1 and said.count("\n") == 1, f"{code}: {said}"
    assert (
        f"another process of this run has ended; go on with: tianci pretrain --resume {out}" in said
    )
    return time.monotonic() - began


def test_a_killed_rank_ends_the_other(runs: Runs, children: Children, tmp_path: Path) -> None:
    for dead in (0, 1):
        kill_one(runs, children, tmp_path / "run", dead, random.Random(dead))
    before = newest_step(tmp_path / "run")  # it goes on, and further
    started = [children.start("pretrain", "--resume", tmp_path / "run", "-q", environment=n)
               for n in ranks(2)]  # fmt: skip
    while newest_step(tmp_path / "run") <= before:
        assert children.done(started[0]) is None, started[0].said
        time.sleep(0.01)
    started[1].kill(signal.SIGTERM)  # reaches one, ends both, saved
    assert [children.wait(child) for child in started] == [143, 143]
    assert "saved; go on with" in started[0].said


def test_a_second_run_of_two_processes_is_refused_once(
    runs: Runs, children: Children, tmp_path: Path
) -> None:
    """What the first process says no to, all end for; nobody waits for somebody who has gone."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("")
    started = [children.start(*runs.command(KIND, tmp_path / "out"), environment=names)
               for names in ranks(2)]  # fmt: skip
    assert [children.wait(child) for child in started] == [2, 2]
    assert "holds other files" in started[0].said
