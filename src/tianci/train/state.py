"""Checkpoints of a run: written beside, fsynced, manifest last, renamed; the newest whole one is
found by itself.

`checkpoints/step-00000100/` is an ordinary model directory with `resume/` inside: optimizer
moments and the few numbers that say where the run stands. Random states need not be saved: dice
are a function of (seed, step, process).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors.torch import load_file, save_file

from tianci import checkpoint
from tianci.checkpoint import Checkpoint
from tianci.errors import UserError
from tianci.files import read_json, remove_directory, write_directory, write_json
from tianci.train.examples import Position


@dataclass
class State:
    """Where a run stands."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0  # of training, over all its parts
    phase: int = 0  # 0 with the first sequence length, 1 with the last
    position: Position = field(default_factory=Position)
    events: list[str] = field(default_factory=list)
    monitor: dict[str, float] = field(default_factory=dict)  # what it has seen so far


def save(
    run: Path, model: Checkpoint, optimizer: torch.optim.Optimizer, state: State, keep: int
) -> Path:
    """Writes the checkpoint of this step and removes old ones."""
    folder = run / "checkpoints" / f"step-{state.step:08d}"
    with write_directory(folder) as beside:
        checkpoint.write_into(beside, model)
        (beside / "resume").mkdir()
        save_file(_moments(optimizer), beside / "resume" / "optimizer.safetensors")
        write_json(beside / "resume" / "state.json", asdict(state))
        files = sorted(p for p in beside.rglob("*") if p.is_file())
        write_json(
            beside / "manifest.json", {str(p.relative_to(beside)): checksum(p) for p in files}
        )
    for old in complete(run)[:-keep]:
        remove_directory(old)
    return folder


def checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def complete(run: Path) -> list[Path]:
    """The whole checkpoints of a run, oldest first."""
    found = sorted((run / "checkpoints").glob("step-*"))
    return [folder for folder in found if (folder / "manifest.json").exists()]


def bad_files(folder: Path) -> list[str]:
    """The files of a directory that are missing or not as its manifest says."""
    wrong = []
    for name, expected in read_json(folder / "manifest.json").items():
        path = folder / name
        if not path.exists():
            wrong.append(f"{name} is missing")
        elif checksum(path) != expected:
            wrong.append(f"{name} has changed")
    return wrong


def newest(run: Path) -> Path:
    """The newest checkpoint whose files are all as they were written."""
    for folder in reversed(complete(run)):
        if not bad_files(folder):
            return folder
    raise UserError(f"{run} has no complete checkpoint to go on from")


def restore(folder: Path, optimizer: torch.optim.Optimizer) -> State:
    """Puts the moments back and tells where the run stood."""
    moments = load_file(folder / "resume" / "optimizer.safetensors")
    for number, parameter in enumerate(_parameters(optimizer)):
        names = [name for name in moments if name.rpartition(".")[2] == str(number)]
        optimizer.state[parameter] = {
            name.rpartition(".")[0]: moments[name].to(
                "cpu" if name.startswith("step.") else parameter.device
            )
            for name in names
        }
    text = (folder / "resume" / "state.json").read_text(encoding="utf-8")
    return msgspec.convert(json.loads(text), State)


def _parameters(optimizer: torch.optim.Optimizer) -> list[Any]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _moments(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    return {
        f"{name}.{number}": value.detach().cpu().contiguous()
        for number, parameter in enumerate(_parameters(optimizer))
        for name, value in optimizer.state[parameter].items()
    }
