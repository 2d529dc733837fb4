"""Generated tokens as people write them: a vocabulary of word pieces forgets where blanks were."""

from __future__ import annotations

import re

from tianci.text.words import CHINESE

_WIDE = f"{CHINESE}\u3000-\u303f\uff00-\uffef“”‘’…—·"  # Chinese, its punctuation, full-width forms
_RULES = (
    (re.compile(rf"(?<=[{_WIDE}]) +| +(?=[{_WIDE}])"), ""),
    (re.compile(r"(?<=\d)([.,:]) (?=\d)"), r"\1"),  # 3. 5
    (re.compile(r"(?<=\w) (['’-]) (?=\w)"), r"\1"),  # isn ' t, so - called
    (re.compile(r"([(\[{#$]) (?=\S)"), r"\1"),
    (re.compile(r"(?<=\S) ([)\]}%])"), r"\1"),
)


def readable(text: str) -> str:
    """The text without the blanks that decoding puts between pieces; where blanks are a matter of
    taste (a - b), the more frequent spelling wins."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text.strip()
