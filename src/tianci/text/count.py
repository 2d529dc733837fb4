"""How often each word occurs in a stream of lines: all that learning needs of the text.

Lines are first cut at places where every kind of tokenizer cuts anyway, which Python does quickly.
Only the *different* chunks go through the engine's cleaning and word splitting, so the words are
the engine's own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import tokenizers

from tianci.text.words import CHINESE

MOST_WORDS = 4_000_000  # different chunks held in memory, some hundred MB

# For kinds that keep Chinese characters apart: one character, or a run of others.
APART = re.compile(f"[{CHINESE}]|[^\\s{CHINESE}]+")
# For kinds that carry the space in front of a word along. Chinese clauses end at punctuation.
# (Not the line break: the first word of a line has no space.)
CLAUSES = re.compile(f"[^\\S\\n]?(?:[{CHINESE}]+|[^\\s{CHINESE}]+)")
# Close to GPT-2's own pattern; the engine splits further where this one does not.
BYTES = re.compile(r" ?[^\W\d_]+(?:'[^\W\d_]+)?| ?\d+| ?(?:[^\s\w]|_)+")


class WordCounter:
    """Counts words, dropping the rarest when memory would run out (lossy counting)."""

    def __init__(self, engine: tokenizers.Tokenizer, pattern: re.Pattern[str], number: str | None):
        self.engine = engine
        self.pattern = pattern
        self.number = number
        self.chunks: Counter[str] = Counter()
        self.dropped_below = 1

    def add(self, lines: Iterable[str]) -> None:
        self.chunks.update(self.pattern.findall("\n".join(lines)))
        while len(self.chunks) > MOST_WORDS:
            self.dropped_below += 1
            self.chunks = Counter({c: n for c, n in self.chunks.items() if n >= self.dropped_below})

    def words(self) -> dict[str, int]:
        """Words as the engine sees them, in an order that depends on the text alone."""
        normalizer, splitter = self.engine.normalizer, self.engine.pre_tokenizer
        words: Counter[str] = Counter()
        for chunk, count in self.chunks.items():
            clean = normalizer.normalize_str(chunk) if normalizer else chunk
            for part in clean.split(self.number) if self.number else (clean,):
                for word, _ in splitter.pre_tokenize_str(part):
                    words[word] += count
        return dict(sorted(words.items(), key=lambda item: (-item[1], item[0])))
