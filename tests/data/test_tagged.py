"""Where words stand in the text of a row."""

from __future__ import annotations

from typing import Any

import pytest

from tianci.data.rows import Row
from tianci.data.tagged import sentence_of, split
from tianci.errors import UserError


def row(**values: Any) -> Row:
    return Row(values, "a.jsonl", 7, {})


def words(text: str) -> list[str]:
    return [text[start:end] for start, end in split(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I saw Mr. Lee, 3.5 km off.", "I saw Mr . Lee , 3.5 km off ."),
        ("the U.S. team's all-rounder", "the U.S. team's all-rounder"),
        ("我在NBA看2011年。", "我 在 NBA 看 2011 年 。"),
        ("cafe\u0301 au lait", "cafe\u0301 au lait"),
        ("हिन्दी में", "हिन्दी में"),
        ("a\x00b", "a \x00 b"),
        ("  ", ""),
    ],
)
def test_texts_are_split_into_words(text: str, expected: str) -> None:
    assert words(text) == (expected.split(" ") if expected else [])


def test_words_are_joined_as_people_write() -> None:
    found = sentence_of(row(words=["U.N.", "official", "Ekeus"]), "")
    assert found == ("U.N. official Ekeus", [(0, 4), (5, 13), (14, 19)])
    found = sentence_of(row(words=["我", "爱", "北京", "!"]), "")
    assert found == ("我爱北京!", [(0, 1), (1, 2), (2, 4), (4, 5)])
    # characters are joined tightly in every language, because the data are cut into characters
    assert sentence_of(row(words=["N", "B", "▁", "A"]), "character").text == "NB A"


def test_a_text_beside_the_words_is_kept() -> None:
    found = sentence_of(row(words=["Lee", ",", "who"], text="Lee,  who"), "word")
    assert found == ("Lee,  who", [(0, 3), (3, 4), (6, 9)])
    found = sentence_of(row(words=["``", "Lee"], text='"Lee'), "word")
    assert found.text == "`` Lee"  # other quotes: the text is not made of these words


def test_plain_text_is_split_by_the_unit() -> None:
    assert sentence_of(row(text="我 NBA"), "character").spans == [(0, 1), (2, 3), (3, 4), (4, 5)]
    assert sentence_of(row(text="我 NBA"), "word").spans == [(0, 1), (2, 5)]
    assert sentence_of(row(text=""), "").spans == []


def test_tags_say_how_a_text_is_split() -> None:
    assert sentence_of(row(text="Ann, left", tags=["O", "O"]), "").spans == [(0, 4), (5, 9)]
    assert sentence_of(row(text="我 A", tags=["O", "O", "O"]), "").spans == [(0, 1), (1, 2), (2, 3)]
    with pytest.raises(UserError, match="a.jsonl, line 7: 4 tags for a text of 2 words and 3 char"):
        sentence_of(row(text="我 A", tags=["O"] * 4), "")


def test_nothing_to_tag() -> None:
    with pytest.raises(UserError, match='a.jsonl, line 7: nothing to tag; give it "words" or'):
        sentence_of(row(tags=["O"]), "")
