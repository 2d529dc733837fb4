"""Small runs of every kind as command lines, and what must be equal at their ends."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.children import Children
from tests.matrix.families import SIZES, Place, rows
from tianci.train import journal, state

TASKS = ("classify", "pair", "regress", "tag", "answer", "choose", "similar", "generate")
OBJECTIVES = {"masked+next_sentence": "bert", "causal": "gpt2", "span": "t5"}
KINDS = (*OBJECTIVES, *TASKS)
TIMES = {"seconds", "tokens_per_second", "share_of_peak", "out"}  # differ from run to run
TUNING = {"generate": ["--set", "generate.longest=4"], "similar": ["--set", "similar.how=pairs"],
          "regress": ["--average", "0.9"]}  # fmt: skip
STEPS = 9  # of a pre-training; 2 checkpoints are kept, and one is written every 2 steps


@dataclass(frozen=True)
class Runs:
    """Where text, rows and a model to start from are; and the commands that use them."""

    place: Place
    objectives = tuple(OBJECTIVES)

    def prepare(self) -> None:
        self.place.base("bert")
        for task in TASKS:
            for number, (name, count) in enumerate({"train": 24, "dev": 8}.items()):
                made = [json.dumps(row.values, ensure_ascii=False)
                        for row in rows(task, count, number)]  # fmt: skip
                self._rows(task, name).write_text("\n".join(made) + "\n", encoding="utf-8")

    def warm(self, children: Children) -> None:
        """Lets the forking process see a run of each kind."""
        for kind in ("masked+next_sentence", "classify"):
            children.warm(*self.command(kind, self.place.folder / f"warm-{kind}"))

    def _rows(self, task: str, name: str) -> Path:
        return self.place.folder / f"{task}.{name}.jsonl"

    def command(self, kind: str, out: Path, *more: str) -> list[str]:
        """A run of a few steps with a checkpoint every two, in the middle of an epoch; batches are
        accumulated from pieces."""
        if kind in TASKS:
            return self.tuning(kind, out, *more)
        return self.pretraining(kind, out, *more)

    def pretraining(self, objective: str, out: Path, *more: str) -> list[str]:
        family = OBJECTIVES[objective]
        sizes = [part for name, value in SIZES[family].items()
                 for part in ("--set", f"model.{name}={value}")]  # fmt: skip
        return [
            "pretrain", "--corpus", str(self.place.store), "--preset", f"{family}-tiny",
            "--objective", objective, "--length", "24", "--batch-tokens", "200",
            "--micro-tokens", "80", "--lr", "5e-3", "--dropout", "0.1", "--precision", "float32",
            "--steps", str(STEPS), "--save-every", "2", "--evaluate-every", "4",
            "--log-every", "1", "--out", str(out), "--quiet", *sizes, *more,
        ]  # fmt: skip

    def tuning(self, task: str, out: Path, *more: str) -> list[str]:
        return [
            "finetune", task, "--model", str(self.place.base("bert")),
            "--train", str(self._rows(task, "train")), "--dev", str(self._rows(task, "dev")),
            "--epochs", "2", "--batch", "7", "--lr", "1e-2", "--dropout", "0.1",
            "--precision", "float32", "--save-every", "3", "--log-every", "1", "--force",
            "--out", str(out), "--quiet", *TUNING.get(task, ()), *more,
        ]  # fmt: skip


def log_of(folder: Path) -> list[dict[str, Any]]:
    """The log without times, and without the lines that say where it was resumed."""
    found = []
    for entry in journal.read(folder / "log.jsonl"):
        if entry["event"] not in ("resume", "estimate"):
            found.append(_timeless(entry))
    return found


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if k not in TIMES}
    return [_timeless(v) for v in value] if isinstance(value, list) else value


def logs_of(run: Path, without: Sequence[str] = ()) -> dict[str, list[dict[str, Any]]]:
    """All logs of a run: its own, or those of its trials."""
    logs = {str(p.parent.relative_to(run)): log_of(p.parent) for p in run.rglob("log.jsonl")}
    return {name: [e for e in log if e["event"] not in without] for name, log in logs.items()}


def assert_same(run: Path, whole: Path, without: Sequence[str] = (), moments: bool = True) -> None:
    """Weights, moments, logs and scores of two finished runs are the same, bit for bit."""
    names = {p.name for p in whole.iterdir()}
    assert {p.name for p in run.iterdir()} == names
    weights = [name for name in names if name.endswith(".safetensors")]
    assert weights
    for name in weights:
        assert (run / name).read_bytes() == (whole / name).read_bytes(), f"{run.name}: {name}"
    for folder in state.complete(whole) if moments else []:
        name = "resume/optimizer.safetensors"
        there = run / "checkpoints" / folder.name
        assert (there / name).read_bytes() == (folder / name).read_bytes()
        ours, theirs = (
            json.loads((at / "resume/state.json").read_text()) for at in (there, folder)
        )
        assert _timeless(ours) == _timeless(theirs)
    assert logs_of(run, without) == logs_of(whole, without)
    if (whole / "scores.json").exists():
        ours, theirs = (json.loads((p / "scores.json").read_text()) for p in (run, whole))
        for one in (ours, theirs):
            one.pop("settings")
        assert _timeless(ours) == _timeless(theirs)
    left = list(run.rglob(".*"))
    assert not left, f"{run.name} still holds {left}"


def newest_step(run: Path) -> int:
    """The step that a resumed run would go on from; -1 if from the beginning."""
    found = state.complete(run)
    return int(state.newest(run).name.partition("-")[2]) if found else -1


def ranks(processes: int) -> list[dict[str, str]]:
    """What torchrun tells each process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(processes)}
    return [{**shared, "RANK": str(n), "LOCAL_RANK": str(n)} for n in range(processes)]
