"""Chinese characters one by one, other words in runs."""

from __future__ import annotations

from tianci.text.words import chinese_share, count_words, is_chinese, split_words


def test_is_chinese() -> None:
    assert all(map(is_chinese, "一龥㐀𠀀𪜀豈\U00030000"))
    assert not any(map(is_chinese, "aあア한，。〇１é "))


def test_split_words() -> None:
    text = "我用Python3.11写don't，B2B和caf\u00e9！"
    words = [text[start:end] for start, end in split_words(text)]
    assert words == ["我", "用", "Python3.11", "写", "don't", "B2B", "和", "caf\u00e9"]
    assert count_words(text) == 8
    assert count_words("，。 ...") == 0


def test_chinese_share() -> None:
    assert chinese_share("中文 ab") == 0.5
    assert chinese_share("  ") == 0.0
