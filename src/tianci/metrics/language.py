"""Which rules of scoring a set of texts needs."""

from __future__ import annotations

from collections.abc import Iterable

from tianci.text.words import chinese_share


def language_of(texts: Iterable[str]) -> str:
    """zh where at least 3 of 10 characters are Chinese, else en (for all that has spaces)."""
    return "zh" if chinese_share("".join(texts)) >= 0.3 else "en"
