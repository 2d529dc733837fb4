"""Texts on which a careless tokenizer takes the square of their length."""

from __future__ import annotations

PIECES = {
    "one letter": "a", "one word": "thecatsaton",
    "Chinese without spaces": "今天天气不错我们去公园",
    "one letter with marks": "\u0301", "letters with marks": "e\u0301", "zero width": "\u200b",
    "spaces": " ", "line ends": "\n", "brackets": "[", "closing brackets": "]]",
    "emoji sequences": "👩\u200d👩\u200d👧", "digits": "1", "numbers": "1,000.",
    "alternating scripts": "a今", "special tokens": "[MASK]", "almost special tokens": "[MASK",
    "punctuation": ".!", "Hangul in parts": "\u1112\u1161\u11ab", "upper and lower": "aA",
    "one letter that becomes 18": "\ufdfa", "no character": "\uffff", "tabs and spaces": "\t ",
    "right to left": "\u202eא", "metaspace": "▁", "dots": "v2.0.",
}  # fmt: skip


def text(name: str, size: int) -> str:
    """A text of about `size` bytes in UTF-8."""
    piece = PIECES[name]
    return ("e" if name == "one letter with marks" else "") + piece * (size // len(piece.encode()))
