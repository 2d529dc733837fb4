"""Arithmetic of things that lie end to end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


def begins(lengths: Ids) -> Ids:
    """Where each of them begins."""
    found: Ids = np.cumsum(lengths) - lengths
    return found


def ranges(first: Ids, lengths: Ids) -> Ids:
    """All numbers of ranges end to end, each from its first one on."""
    found: Ids = np.repeat(first - begins(lengths), lengths)
    found += np.arange(len(found))
    return found
