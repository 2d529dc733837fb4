"""Offsets into the original text, where the engine's own are not exact."""

from __future__ import annotations

import tokenizers


class Surface:
    def __init__(self, engine: tokenizers.Tokenizer):
        self.engine = engine

    def correct(self, text: str, offsets: list[tuple[int, int]]) -> list[tuple[int, int]]:
        return offsets
