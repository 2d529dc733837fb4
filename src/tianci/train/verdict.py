"""What a pre-training run is worth, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tianci.goals.language import language_of


def verdict(held: Mapping[str, Any], unigram: float, bigram: float) -> str:
    """One sentence on what was learned."""
    language = language_of(held)
    if language is None:
        return "no held-out text to judge on"
    loss, accuracy = held[language]["loss"], held[language]["accuracy"]
    facts = (
        f"held-out {language} loss {loss:.2f}, accuracy {accuracy:.1%} "
        f"(token frequencies alone: {unigram:.2f}, the token before: {bigram:.2f})"
    )
    if loss > unigram - 0.1:
        return f"it has not begun to learn: {facts}"
    if loss > bigram:
        return f"it has learned something, but the token before tells more: {facts}; train longer"
    return f"it has learned to read: {facts}"
