"""What the trials of a run share, what each of them reaches, and how one may end."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from typing import Any

import torch
from tqdm import tqdm

from tianci.data.rows import Row
from tianci.errors import Failed
from tianci.goals.tasks.base import Decision, Task
from tianci.text.tokenizer import Tokenizer
from tianci.train import parallel
from tianci.tune.settings import Finetune


@dataclass(frozen=True)
class Work:
    """What all trials of a run share."""

    settings: Finetune
    task: Task  # with labels
    train: list[Row]
    dev: list[Row]
    limit: int
    quiet: bool = False
    bf16: bool = False
    world: parallel.World = field(default_factory=parallel.World)
    tokenizer: Tokenizer | None = None  # for a preset, which has none of its own
    scratch: bool = False  # fresh weights instead of the pre-trained ones

    @property
    def metric(self) -> str:
        return self.settings.metric or self.task.chosen_by(self.dev)


@dataclass
class Result:
    """What a trial reached, at its best epoch on dev."""

    lr: float
    seed: int
    score: float = -math.inf  # of the metric
    scores: dict[str, float] = field(default_factory=dict)
    decision: Decision = field(default_factory=dict)
    step: int = 0
    epochs: float = 0.0
    steps: int = 0  # of the whole trial
    tokens: int = 0
    seconds: float = 0.0
    learned: int = 0  # parameters that were trained
    parameters: int = 0
    trouble: str | None = None  # why the result is worth nothing
    history: list[dict[str, Any]] = field(default_factory=list)


class Interrupted(BaseException):
    """A signal came; the trial is saved."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number


class Diverged(Failed):
    """A trial came to no number, whatever was tried."""


def tell(work: Work, text: str) -> None:
    """Says something to the person at the terminal."""
    if not work.quiet and work.world.first:
        tqdm.write(text, file=sys.stderr)


def seeds_of(seed: int, count: int) -> list[int]:
    return [seed + 1000 * n for n in range(count)]


def free_memory() -> None:
    """Between trials nothing of the last one should stay."""
    import gc

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
