"""Scripts and words: which characters are Chinese, and where words of mixed text begin and end."""

from __future__ import annotations

import re

# The blocks that BERT calls Chinese, and the extensions F to I that came later. Kana and Hangul are
# not in.
CHINESE = (
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0002a6df\U0002a700-\U0002ebef\U0002ebf0-\U0002ee5f"
    "\U0002f800-\U0002fa1f\U00030000-\U000323af"
)
_CHINESE = re.compile(f"[{CHINESE}]")
# A Chinese character, or a run of letters, digits and marks, inner ' - . , _ included: don't, 3.5,
# B2B
_WORD = re.compile(f"[{CHINESE}]|[^\\W{CHINESE}]+(?:['’.,_-][^\\W{CHINESE}]+)*")


def is_chinese(character: str) -> bool:
    """Whether one character is Chinese (a Han ideograph)."""
    return _CHINESE.match(character) is not None


def chinese_share(text: str) -> float:
    """The share of Chinese among the characters that are not white space."""
    visible = sum(not character.isspace() for character in text)
    return len(_CHINESE.findall(text)) / visible if visible else 0.0


def split_words(text: str) -> list[tuple[int, int]]:
    """Where words are: Chinese characters one by one, other letters and digits in runs."""
    return [found.span() for found in _WORD.finditer(text)]


def count_words(text: str) -> int:
    """How many words `split_words` finds."""
    return len(_WORD.findall(text))
