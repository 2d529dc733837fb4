"""Learning rates, warm-up and batches that leave the plateau, per width; measured, see LOG.md."""

from __future__ import annotations

from typing import NamedTuple


class Pace(NamedTuple):
    """How fast a model of some width may learn."""

    lr: float
    warmup: float
    dropout: float
    batch_tokens: int
    micro_tokens: int = 8192


# A model that sees each text once or twice learns more without dropout (fine-tuning has the
# model's own), and leaves the plateau by many small steps rather than by many tokens. Batches of
# wide models are cut into pieces of a few seconds on two cores, because a signal is answered
# between two pieces.
PACES = {
    128: Pace(1.5e-3, 0.05, 0.0, 2048),
    256: Pace(7e-4, 0.05, 0.0, 2048),
    512: Pace(4e-4, 0.06, 0.0, 4096),
    768: Pace(2e-4, 0.1, 0.0, 2048, 1024),
    1024: Pace(1e-4, 0.1, 0.0, 2048, 512),
}


def pace(width: int, layers: int) -> Pace:
    """The pace of the nearest known width; deep post-norm stacks go slower."""
    nearest = min(PACES, key=lambda known: abs(known - width))
    found = PACES[nearest]
    if layers > 6 and nearest <= 512:
        return found._replace(lr=found.lr * (6 / layers) ** 0.5, warmup=max(found.warmup, 0.1))
    return found
