"""Objectives that guess tokens: what they lose compares with the entropies of the corpus."""

from __future__ import annotations

from collections.abc import Iterable

LANGUAGE = ("masked", "causal", "span", "prefix")


def language_of(names: Iterable[str]) -> str | None:
    """The objective among these that guesses tokens."""
    return next((name for name in names if name in LANGUAGE), None)
