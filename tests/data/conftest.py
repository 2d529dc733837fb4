"""A small vocabulary for all tests of the data: easy to follow by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["the", "cat", "sat", "on", "mat", "dog", "##s", ".", "!", "?", "。", "，"]
CHINESE = list("今天气很好我们去公园看书")
IDS = {token: id for id, token in enumerate([*SPECIAL, *WORDS, *CHINESE])}


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    """A directory with vocab.txt."""
    folder = tmp_path / "vocabulary"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(IDS) + "\n", encoding="utf-8")
    return folder


def ids(*tokens: str) -> list[int]:
    return [IDS[token] for token in tokens]
