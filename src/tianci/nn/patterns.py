"""Who may look at whom: the patterns that `attend` understands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Full:
    """Every token sees all tokens of its sequence."""

    causal: bool = False


@dataclass(frozen=True)
class Causal:
    """Every token sees itself and what stands to its left."""

    causal: bool = True


@dataclass(frozen=True)
class Biased:
    """Full or causal, with a number for each pair of places added to the scores (T5).

    `bias(queries, keys)` gives (H, queries, keys); `ahead(places, keys)` that of one query at each
    of these places, (places, H, 1, keys). Products are not divided by sqrt(D).
    """

    bias: Callable[[int, int], Tensor]
    ahead: Callable[[Sequence[int], int], Tensor]
    causal: bool = False


Pattern = Full | Causal | Biased
