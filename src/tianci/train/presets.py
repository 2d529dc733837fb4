"""Learning rates and warm-up that leave the plateau, per size; measured, see LOG.md."""

from __future__ import annotations

from typing import NamedTuple


class Pace(NamedTuple):
    """How fast a model of some width may learn."""

    lr: float
    warmup: float
    dropout: float


# Peak rates for batches of about 4,096 tokens. Small models that see each text once or twice learn
# more
# without dropout; the large ones keep the paper's.
PACES = {
    128: Pace(2e-3, 0.05, 0.0),
    256: Pace(1e-3, 0.05, 0.0),
    512: Pace(6e-4, 0.06, 0.0),
    768: Pace(2e-4, 0.1, 0.1),
    1024: Pace(1e-4, 0.1, 0.1),
}


def pace(width: int, layers: int) -> Pace:
    """The pace of the nearest known width; deep post-norm stacks go slower."""
    nearest = min(PACES, key=lambda known: abs(known - width))
    found = PACES[nearest]
    if layers > 6 and nearest <= 512:
        return Pace(found.lr * (6 / layers) ** 0.5, max(found.warmup, 0.1), found.dropout)
    return found
