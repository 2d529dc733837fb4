"""Eight processes, one directory: one of them writes, seven say who does and end with 2."""

from __future__ import annotations

import os
import signal
import time
from glob import glob
from pathlib import Path

import pytest

from tests.faults.children import Child, Children
from tests.faults.runs import Runs, newest_step
from tests.test_claim import holder
from tianci.train import state

MANY = 8
TOLD = "is being written by another process (number "


def race(children: Children, commands: list[list[str]], stdin: Path | None = None) -> Child:
    """The one that is left when the others have given up."""
    started = [children.start(*command, stdin=stdin) for command in commands]
    left = list(started)
    until = time.monotonic() + 120
    while len(left) > 1 and time.monotonic() < until:
        time.sleep(0.02)
        left = [child for child in left if children.done(child) is None]
    assert len(left) == 1, [child.said for child in started]
    for child in started:
        if child is not left[0]:
            assert children.wait(child) == 2, child.said
            assert f"{TOLD}{left[0].pid})" in child.said and child.said.count("\n") == 1
    return left[0]


def one_run_of_eight(runs: Runs, children: Children, tmp_path: Path, kind: str) -> None:
    """The winner trains until the others have ended, then it is stopped."""
    more = ("--epochs", "100000") if kind == "classify" else ("--steps", "1000000")
    winner = race(children, [runs.command(kind, tmp_path / "out", *more)] * MANY)
    # not rglob: it stumbles over what the winner removes meanwhile
    while not (found := glob(f"{tmp_path}/**/step-*", recursive=True)):
        assert children.done(winner) is None, winner.said
        time.sleep(0.02)
    winner.kill(signal.SIGTERM)
    assert children.wait(winner) == 143
    assert newest_step(Path(found[0]).parent.parent) > 0
    assert not list(tmp_path.glob(".*"))


def one_text_of_eight(runs: Runs, children: Children, tmp_path: Path, command: str) -> None:
    """The winner waits for its standard input, so that all eight are there at the same time."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    ours = os.open(pipe, os.O_RDWR)
    more = {
        "prepare": ["--tokenizer", str(runs.place.folder / "vocab"), "--no-estimate"],
        "vocab": ["--kind", "char", "--size", "45"],
    }
    arguments = [command, "-", "--out", str(tmp_path / "out"), "--quiet", *more[command]]
    winner = race(children, [arguments] * MANY, stdin=pipe)
    os.write(ours, (runs.place.folder / "text.txt").read_bytes()[:8000].rpartition(b"\n")[0])
    os.close(ours)
    assert children.wait(winner) == 0, winner.said
    made = "corpus.json" if command == "prepare" else "tokenizer.json"
    assert (tmp_path / "out" / made).exists() and not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("kind", ["masked+next_sentence", "classify"])
def test_one_run_of_eight(runs: Runs, children: Children, tmp_path: Path, kind: str) -> None:
    one_run_of_eight(runs, children, tmp_path, kind)


@pytest.mark.parametrize("command", ["vocab", "prepare"])
def test_one_text_of_eight(runs: Runs, children: Children, tmp_path: Path, command: str) -> None:
    one_text_of_eight(runs, children, tmp_path, command)


def commands(runs: Runs, out: Path) -> dict[str, list[str]]:
    """Every command that writes a directory."""
    text, vocab = str(runs.place.folder / "text.txt"), str(runs.place.folder / "vocab")
    return {
        "vocab": ["vocab", text, "--out", str(out)],
        "prepare": ["prepare", text, "--tokenizer", vocab, "--out", str(out)],
        "pretrain": runs.command("causal", out),
        "finetune": runs.command("tag", out),
        "convert": ["convert", str(runs.place.base("bert")), str(out)],
        "export": ["export", str(runs.place.base("bert")), "--onnx", "--out", str(out)],
    }


def test_all_commands_respect_a_writer(runs: Runs, children: Children, tmp_path: Path) -> None:
    other = holder(tmp_path / "out")
    try:
        for name, arguments in commands(runs, tmp_path / "out").items():
            code, child = children.run(*arguments)
            assert code == 2 and f"{TOLD}{other.pid})" in child.said, f"{name}: {child.said}"
            assert child.said.count("\n") == 1 and not (tmp_path / "out").exists()
    finally:
        other.communicate()
    code, child = children.run(*commands(runs, tmp_path / "out")["convert"])
    assert code == 0, child.said


def test_a_resumed_run_has_one_writer_too(runs: Runs, children: Children, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = children.start(*runs.command("causal", out, "--steps", "1000000"))
    while not (out / "checkpoints").exists() or not state.complete(out):
        assert children.done(first) is None, first.said
        time.sleep(0.02)
    code, child = children.run("pretrain", "--resume", out, "--quiet")
    assert code == 2 and f"{TOLD}{first.pid})" in child.said
    first.kill()
    children.wait(first)
