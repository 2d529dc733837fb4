"""Checkpoints of a run: written beside, fsynced, manifest last, renamed; the newest whole one is
found by itself.

`checkpoints/step-00000100/` is an ordinary model directory with `resume/` inside: optimizer
moments and the few numbers that say where the run stands. Random states need not be saved: dice
are a function of (seed, step, process).
"""

from __future__ import annotations

import math
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from tianci import checkpoint, manifest
from tianci.checkpoint import Checkpoint
from tianci.errors import UserError
from tianci.files import read_json, remove_directory, write_directory, write_json
from tianci.train import parallel
from tianci.train.average import AVERAGE
from tianci.train.examples import Position
from tianci.train.optimizer import MOMENTS
from tianci.train.parallel import World


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
    micro_tokens: int = 0  # of one forward pass, where memory did not suffice (0: as set)
    rate: float = 1.0  # the learning rate is lower by this after returns
    skipped: int = 0  # steps without a number, in all
    bad: int = 0  # of them, those that still count
    calm: int = 0  # good steps since the last of them
    returns: int = 0  # to an earlier state


def save(
    run: Path, model: Checkpoint, optimizer: torch.optim.Optimizer, state: State, keep: int
) -> Path:
    """Writes the checkpoint of this step and removes old ones."""
    folder, moments = folder_of(run, state.step), _moments(optimizer)
    needed = 4 * model.parameter_count + sum(value.nbytes for value in moments.values())
    with write_directory(folder, needed) as beside:
        checkpoint.write_into(beside, model)
        (beside / "resume").mkdir()
        save_file(moments, beside / "resume" / "optimizer.safetensors")
        write_json(beside / "resume" / "state.json", asdict(state))
        manifest.seal(beside)
    for old in complete(run)[:-keep]:
        remove_directory(old)
    return folder


def bytes_needed(model: Checkpoint, keep: int, average: bool = False) -> int:
    """Room for the checkpoints of a run with Adam: a new one is whole before an old one goes."""
    return (4 if average else 3) * 4 * model.parameter_count * (keep + 1)


def folder_of(run: Path, step: int) -> Path:
    return run / "checkpoints" / f"step-{step:08d}"


def step_of(folder: Path) -> int:
    return int(folder.name.rpartition("-")[2])


def complete(run: Path) -> list[Path]:
    """The whole checkpoints of a run, oldest first."""
    found = sorted((run / "checkpoints").glob("step-*"))
    return [folder for folder in found if manifest.has_manifest(folder)]


def newest(run: Path, tell: Callable[[str], None] | None = None) -> Path:
    """The newest checkpoint whose files are all as they were written.

    Damaged ones on the way are told, and renamed: they must not count among those that are kept.
    """
    for folder in reversed(complete(run)):
        wrong = manifest.faults(folder)
        if not wrong:
            return folder
        if tell:
            more = f" (and {len(wrong) - 1} more files)" if len(wrong) > 1 else ""
            aside = folder.with_name(f"damaged-{folder.name}")
            shutil.rmtree(aside, ignore_errors=True)
            folder.rename(aside)
            tell(f"{folder} is damaged: {wrong[0]}{more}; it is now {aside.name}, "
                 "and the run goes on from the one before")  # fmt: skip
    raise UserError(
        f"{run} has no whole checkpoint to go on from (tianci verify {run} shows the damage)"
    )


def last_good(run: Path) -> Path | None:
    """The newest whole checkpoint without fresh trouble in it, else the newest whole one."""
    whole = [folder for folder in reversed(complete(run)) if not manifest.faults(folder)]
    calm = [folder for folder in whole if not _state(folder).bad]
    return next(iter(calm or whole), None)


def copy_weights(source: Checkpoint, target: Checkpoint) -> None:
    """Weights of one model into another of the same shape, in place: optimizers hold on to them."""
    target.model.load_state_dict(source.model.state_dict())
    for name, head in target.heads.items():
        head.load_state_dict(source.heads[name].state_dict())


def last_checkpoint(run: Path, world: World) -> Path | None:
    """Where to go on from: found by the first process, because damaged ones are put aside."""
    at = -1
    if world.first and complete(run):
        at = step_of(newest(run, lambda text: print(f"! {text}", file=sys.stderr)))
    at = int(parallel.agree(at, world))
    return None if at < 0 else folder_of(run, at)


def restore(folder: Path, optimizer: torch.optim.Optimizer) -> State:
    """Puts the moments back and tells where the run stood."""
    file = folder / "resume" / "optimizer.safetensors"
    try:
        moments = load_file(file)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file} is not a whole safetensors file: {error}") from error
    places: dict[str, dict[str, str]] = defaultdict(dict)
    for name in moments:
        kind, _, place = name.rpartition(".")
        places[place][kind] = name
    kept = set(getattr(optimizer, "kept", MOMENTS))
    for number, parameter in enumerate(_parameters(optimizer)):
        found = {kind: moments[name] for kind, name in places.pop(str(number), {}).items()}
        fits = all(value.shape == (() if kind == "step" else parameter.shape)
                   and value.dtype == parameter.dtype for kind, value in found.items())  # fmt: skip
        if not fits or (found and found.keys() - {AVERAGE} != kept):
            raise UserError(f"{file}: what is kept of weight {number} does not fit this run")
        optimizer.state[parameter] = {
            kind: value.to("cpu" if kind == "step" else parameter.device)
            for kind, value in found.items()
        }
    if places:
        raise UserError(f"{file} holds moments of weights that the model of this run has not")
    return _state(folder)


def _state(folder: Path) -> State:
    """Where a checkpoint stands. Its manifest says that nothing changed, not who wrote it."""
    file = folder / "resume" / "state.json"
    try:
        found = msgspec.convert(read_json(file), State)
    except msgspec.ValidationError as error:
        raise UserError(f"{file} is not the state of a run: {error}") from error
    if found.step != step_of(folder):
        raise UserError(f"{file} speaks of step {found.step}, its directory of {step_of(folder)}")
    numbers = [v for v in (*vars(found).values(), *vars(found.position).values())
               if isinstance(v, int | float)]  # fmt: skip
    if not all(0 <= number < math.inf for number in numbers):
        raise UserError(f"{file} is not the state of a run: it has a number below 0 or none")
    return found


def _parameters(optimizer: torch.optim.Optimizer) -> list[Any]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _moments(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    return {
        f"{name}.{number}": value.detach().cpu().contiguous()
        for number, parameter in enumerate(_parameters(optimizer))
        for name, value in optimizer.state[parameter].items()
    }
