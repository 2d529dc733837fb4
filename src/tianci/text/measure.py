"""How well a tokenizer fits some lines: what it does not know, and how finely it cuts."""

from __future__ import annotations

from collections.abc import Sequence

from tianci.text.tokenizer import Tokenizer
from tianci.text.words import split_words


def measure(tokenizer: Tokenizer, lines: Sequence[str]) -> dict[str, float | int]:
    """Characters covered, unknown rate (share of tokens) and tokens per word."""
    characters = hidden = tokens = unknown = words = inside = 0
    for line, encoded in zip(lines, tokenizer.encode(lines, special=False), strict=True):
        characters += sum(not character.isspace() for character in line)
        tokens += len(encoded)
        spans = split_words(line)
        words += len(spans)
        at = 0
        for id, (start, end) in zip(encoded.ids, encoded.offsets, strict=True):
            if id == tokenizer.unknown:
                unknown += 1
                hidden += end - start
            while at < len(spans) and spans[at][1] <= start:
                at += 1
            inside += at < len(spans) and spans[at][0] < end
    return {
        "lines_measured": len(lines),
        "tokens": tokens,
        "characters_covered": 1 - hidden / characters if characters else 0.0,
        "unknown_rate": unknown / tokens if tokens else 0.0,
        "tokens_per_word": inside / words if words else 0.0,
    }
