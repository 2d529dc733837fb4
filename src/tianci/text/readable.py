"""Generated tokens as people write them: a vocabulary of word pieces forgets where blanks were."""

from __future__ import annotations

import re

from tianci.text.words import CHINESE

_WIDE = f"{CHINESE}\u3000-\u303f\uff00-\uffef“”‘’…—·"  # Chinese, its punctuation, full-width forms
_AROUND = re.compile(rf"(?<=[{_WIDE}]) +| +(?=[{_WIDE}])")
_RULES = (
    (re.compile(r"(?<=\d)([.,:]) (?=\d)"), r"\1"),  # 3. 5
    (re.compile(r"(?<=\w) (['’-]) (?=\w)"), r"\1"),  # isn ' t, so - called
    (re.compile(r"([(\[{#$]) (?=\S)"), r"\1"),
    (re.compile(r"(?<=\S) ([)\]}%])"), r"\1"),
)


def without_blanks(text: str) -> str:
    """The text without blanks beside Chinese; what follows never changes what stands there."""
    return _AROUND.sub("", text)


def readable(text: str) -> str:
    """The text without the blanks that decoding puts between pieces; where blanks are a matter of
    taste (a - b), the more frequent spelling wins."""
    text = without_blanks(text)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text.strip()
