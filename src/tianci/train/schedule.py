"""The learning rate as a function of progress: 0 at the first step, 1 at the end of the run."""

from __future__ import annotations

import math

from tianci.errors import unknown

SCHEDULES = ("linear", "constant", "cosine", "slanted")


def rate(progress: float, warmup: float, schedule: str) -> float:
    """The factor on the peak rate."""
    progress = min(max(progress, 0.0), 1.0)
    if schedule == "slanted":  # ULMFiT: a steep rise, a long fall, never below 1/32 of the peak
        cut = warmup or 0.1
        share = progress / cut if progress < cut else 1 - (progress - cut) / (1 - cut)
        return (1 + share * 31) / 32
    if progress < warmup:
        return progress / warmup
    left = (1 - progress) / (1 - warmup)
    if schedule == "linear":
        return left
    if schedule == "cosine":
        return 0.5 * (1 - math.cos(math.pi * left))
    if schedule == "constant":
        return 1.0
    raise unknown("schedule", schedule, SCHEDULES)
