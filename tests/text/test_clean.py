"""Cleaning, and what counts as a number."""

from __future__ import annotations

import random
import re

import pytest
from tokenizers import Regex, normalizers

from tests.text.strings import random_text
from tianci.text.charsmap import charsmap
from tianci.text.clean import NUMBER, Cleaning, simplified_characters

PYTHON = re.compile(NUMBER)
ENGINE = normalizers.Replace(Regex(NUMBER), "#NUM#")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("12 and 3.5", ["12", "3.5"]),
        ("1,234,567.89", ["1,234,567.89"]),
        ("12.5%的人，３％", ["12.5%", "３％"]),
        ("１，２３４．５元", ["１，２３４．５"]),
        ("第3章，约12万", ["3", "12"]),
        ("100，200，300", ["100", "200", "300"]),  # a list, not one number
        ("1,2345", ["1", "2345"]),  # not thousands
        ("mp3 B2B covid19 5G 3kg 1.5kg v2.0 v12.5 x_1 é3", []),  # parts of words
        ("GPT-3.5, -7", ["3.5", "7"]),  # the sign stays
        ("2019-12-31 12:30", ["2019", "12", "31", "12", "30"]),
        ("192.168.0.1", ["192.168", "0.1"]),
        ("$5.00.", ["5.00"]),
        ("5‰", ["5‰"]),
        ("٣ 三 Ⅳ ½ ²", []),  # only the digits 0-9 in both widths
    ],
)
def test_numbers(text: str, numbers: list[str]) -> None:
    assert PYTHON.findall(text) == numbers
    assert ENGINE.normalize_str(text) == PYTHON.sub("#NUM#", text)


def test_python_and_the_engine_see_the_same_numbers() -> None:
    rng = random.Random(5)
    found = 0
    for _ in range(20_000):
        text = random_text(rng) + rng.choice(
            ["", "12", "3.5%", "1,234", "v2.0", "é3", "３，０００"]
        )
        expected, count = PYTHON.subn("#NUM#", text)
        found += count
        assert ENGINE.normalize_str(text) == expected
    assert found > 5_000


def clean(text: str, exact: bool = False, **choices: bool) -> str:
    normalizer = Cleaning(**choices).normalizer(chinese_apart=False, exact=exact)
    return normalizer.normalize_str(text) if normalizer else text


def test_choices() -> None:
    text = "Ｃａｆé\t㎏ 國\u200b"
    assert clean(text) == "Ｃａｆé ㎏ 國"
    assert clean(text, lower=True) == "ｃａｆé ㎏ 國"
    assert clean(text, strip_accents=True) == "Ｃａｆe ㎏ 國"
    assert clean(text, nfkc=True) == "Café kg 國"
    assert clean(text, nfkc=True, lower=True, strip_accents=True) == "cafe kg 國"
    assert clean(text, exact=True) == text
    assert clean("e\u0301É\t", exact=True, lower=True, strip_accents=True) == "ee\t"


def test_simplify() -> None:
    pytest.importorskip("opencc")
    assert clean("繁體中文，國家圖書館 ABC", simplify=True) == "繁体中文，国家图书馆 ABC"
    assert clean("简体中文不变", simplify=True) == "简体中文不变"
    mapping = simplified_characters()
    assert mapping["國"] == "国"
    assert 3_000 < len(mapping) < 10_000


def test_charsmap() -> None:
    """The engine's reader agrees with the map on every character, also on those not in it."""
    rng = random.Random(1)
    characters = [chr(code) for code in range(0x21, 0x3000)] + list("國語體𠀀𠮷😀")
    mapping = {old: chr(rng.randrange(0x4E00, 0x9FFF)) for old in rng.sample(characters, 3_000)}
    mapping["a"] = "longer text"
    blob = charsmap(mapping)
    shuffled = list(mapping.items())
    rng.shuffle(shuffled)
    assert charsmap(dict(shuffled)) == blob
    normalizer = normalizers.Precompiled(blob)
    for character in characters:
        assert normalizer.normalize_str(character) == mapping.get(character, character)
