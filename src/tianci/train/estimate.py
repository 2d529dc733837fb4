"""What a run will take, said before its first step: time, tokens, memory; and how often it can
afford to look at held-out text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tianci.checkpoint import Checkpoint
from tianci.goals.base import Joint
from tianci.train import fitting, probe
from tianci.train.settings import Train


@dataclass(frozen=True)
class Estimate:
    """A first guess from one batch."""

    tokens: int
    epochs: float
    tokens_per_second: float
    memory_bytes: int

    def __str__(self) -> str:
        minutes = self.tokens / self.tokens_per_second / 60
        return (
            f"estimate: {self.tokens:,} tokens ({self.epochs:.2f} epochs) in about "
            f"{minutes:.1f} minutes at {self.tokens_per_second:,.0f} tokens/s, about "
            f"{self.memory_bytes / 2**20:,.0f} MiB"
        )


def planned_tokens(settings: Train, batch_tokens: int, corpus_tokens: int) -> float | None:
    """The length that the settings ask for; None where minutes decide."""
    if settings.steps:
        return settings.steps * batch_tokens
    if settings.tokens:
        return settings.tokens
    return None if settings.minutes else (settings.epochs or 1) * corpus_tokens


def evaluations(run: float, one: float) -> int:
    """How often a run looks at held-out text: 20 times, but for no more than a tenth of its time
    (at the end in any case). Both in tokens, or both in seconds of training."""
    return max(2, min(20, int(0.1 * run / max(one, 1e-9))))


def estimate(
    model: Checkpoint, settings: Train, batch_tokens: int, corpus_tokens: int, speed: float
) -> Estimate:
    """For the length that the settings ask for, at so many tokens per second."""
    planned = planned_tokens(settings, batch_tokens, corpus_tokens)
    if planned is None:
        planned = (settings.minutes or 0) * 60 * speed
    one_pass = min(batch_tokens, settings.micro_tokens or batch_tokens)
    memory = probe.training_bytes(model, one_pass)
    return Estimate(int(planned), planned / max(1, corpus_tokens), speed, memory)


def speed(
    model: Checkpoint,
    goal: Joint,
    pool: Any,
    numbers: np.ndarray,
    device: str,
    bf16: bool,
    one_pass: int | None,
) -> float:
    """Tokens per second of so much of a batch as one pass of the run takes, or as fits into memory.

    A whole batch of a large model would be minutes before the first step, and more memory than the
    run itself needs.
    """
    while True:
        batch = pool.batch(numbers)
        if one_pass and len(numbers) > 1 and batch.layout.tokens > one_pass:
            numbers = numbers[: max(1, len(numbers) * one_pass // batch.layout.tokens)]
            continue
        try:
            return probe.tokens_per_second(model, goal, batch, device, bf16)
        except (RuntimeError, MemoryError) as error:
            if not fitting.ran_out(error):
                raise
        if len(numbers) == 1:
            raise fitting.TooLarge(len(batch.tokens))
        numbers = numbers[: len(numbers) // 2]
        for part in (model.model, *model.heads.values()):
            part.zero_grad(set_to_none=True)
        fitting.let_go()
