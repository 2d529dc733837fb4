"""Killed, and gone on with by the same command: the weights and the log of an undisturbed run."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from tests.faults.children import Children
from tests.faults.runs import KINDS, OBJECTIVES, Runs, assert_same, ranks

KILLS = 2  # at random in every kind of run; benchmarks/soak_faults.py takes 20


def killed_and_resumed(
    runs: Runs, children: Children, kind: str, folder: Path, dice: random.Random, processes: int = 1
) -> int:
    """Kills a run at a random point, goes on, compares; how many points it has."""
    whole = folder / f"whole-{processes}"
    if not whole.exists():
        finish(runs, children, kind, whole, processes)
    points = points_of(runs, children, kind, folder) if processes == 1 else 60
    out = folder / f"killed-{dice.getrandbits(40):010x}"
    at = dice.randrange(1, points)
    codes = start_all(runs, children, kind, out, processes, at)
    assert codes[0] == -signal.SIGKILL, f"{kind} did not reach point {at}: {codes}"
    finish(runs, children, kind, out, processes)
    assert_same(out, whole)
    return points


def points_of(runs: Runs, children: Children, kind: str, folder: Path) -> int:
    """How many points a run of this kind has: it is made once more, counting."""
    note = folder / "points"
    if not note.exists():
        counted = folder / "counted"
        code, child = children.run(
            *runs.command(kind, counted), die_at=10**9, below=counted, count=True
        )
        assert code == 0, child.said
        note.write_text(child.said.rpartition("points: ")[2])
    return int(note.read_text())


def start_all(
    runs: Runs, children: Children, kind: str, out: Path, processes: int, die_at: int = 0
) -> list[int]:
    """The exit codes of all processes of a run; the first one dies at a point."""
    command = runs.command(kind, out)
    if processes == 1:
        return [children.run(*command, die_at=die_at, below=out)[0]]
    started = [
        children.start(
            *command, environment=names, die_at=0 if number else die_at, below=out
        )
        for number, names in enumerate(ranks(processes))
    ]  # fmt: skip
    codes = [children.wait(child) for child in started]
    if not die_at:
        assert codes == [0] * processes, "\n".join(child.said for child in started)
    return codes


def finish(runs: Runs, children: Children, kind: str, out: Path, processes: int) -> None:
    """The same command until the end."""
    if processes == 1:
        code, child = children.run(*runs.command(kind, out))
        # or it was killed when all was done, but for what is cleared away behind it
        assert code == 0 or "is finished" in child.said, f"{kind}: {child.said}"
    else:
        start_all(runs, children, kind, out, processes)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bits(runs: Runs, children: Children, tmp_path: Path, kind: str) -> None:
    dice = random.Random(f"{kind} in CI")
    for _ in range(KILLS):
        points = killed_and_resumed(runs, children, kind, tmp_path, dice)
    assert points > 100


@pytest.mark.parametrize("kind", ["masked+next_sentence", "classify"])
def test_the_same_bits_with_two_processes(
    runs: Runs, children: Children, tmp_path: Path, kind: str
) -> None:
    killed_and_resumed(runs, children, kind, tmp_path, random.Random(kind), processes=2)


def test_all_kinds_are_here() -> None:
    assert set(OBJECTIVES) <= set(KINDS) and len(KINDS) == 11
