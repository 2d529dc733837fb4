"""Who may look at whom: the patterns that `attend` understands."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Full:
    """Every token sees all tokens of its sequence."""

    causal: bool = False


@dataclass(frozen=True)
class Causal:
    """Every token sees itself and what stands to its left."""

    causal: bool = True


Pattern = Full | Causal
