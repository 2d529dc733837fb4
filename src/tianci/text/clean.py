"""How text is cleaned before it is cut into pieces.

Everything here becomes a normalizer inside tokenizer.json, so that other programs clean alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tokenizers import Regex, normalizers

from tianci.errors import need
from tianci.text.charsmap import charsmap
from tianci.text.words import CHINESE

NUMBER_TOKEN = "#NUM#"

_DIGIT = "0-9０-９"
# Latin, Greek and Cyrillic; Chinese characters around a number do not make it part of a word
_LETTER = (
    "A-Za-zＡ-Ｚａ-ｚ\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af"
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u0481\u048a-\u052f_"
)
# Integers and decimals, thousands in groups of three, percent and per mille included: 1,234.5%.
# Digits that touch a letter belong to a word (mp3, B2B, 5G, v2.0, 3kg) and stay. The two
# look-behinds at the start of a decimal part are for names such as v2.0. `(?>` keeps the engine
# from giving back digits: no 1 out of 1.5kg. Only syntax that Python and Oniguruma read alike,
# because offsets are found with Python's.
NUMBER = (
    f"(?<![{_DIGIT}{_LETTER}])(?<![{_LETTER}][{_DIGIT}][.．])(?<![{_LETTER}][{_DIGIT}][{_DIGIT}][.．])"
    f"(?>(?:[0-9]{{1,3}}(?:,[0-9]{{3}})+|[０-９]{{1,3}}(?:[,，][０-９]{{3}})+|[{_DIGIT}]+)(?![{_DIGIT}])"
    f"(?:[.．][{_DIGIT}]+)?[%％‰]?)(?![{_LETTER}])"
)


@dataclass(frozen=True, slots=True)
class Cleaning:
    """Which differences between texts do not matter."""

    lower: bool = False
    strip_accents: bool = False
    nfkc: bool = False
    simplify: bool = False
    numbers: bool = False

    def normalizer(self, *, chinese_apart: bool, exact: bool) -> normalizers.Normalizer | None:
        """The same as a step of the engine; `exact` keeps white space and control characters."""
        steps: list[normalizers.Normalizer] = []
        if self.numbers:  # first, while the text is as the user wrote it: offsets are found there
            steps.append(normalizers.Replace(Regex(NUMBER), NUMBER_TOKEN))
        if self.nfkc:
            steps.append(normalizers.NFKC())
        if self.simplify:
            steps.append(normalizers.Precompiled(_simplifier()))
        if not exact:
            steps.append(
                normalizers.BertNormalizer(
                    clean_text=True,
                    handle_chinese_chars=chinese_apart,
                    strip_accents=self.strip_accents,
                    lowercase=self.lower,
                )
            )
        else:
            if self.strip_accents:
                steps += [normalizers.NFD(), normalizers.StripAccents(), normalizers.NFC()]
            if self.lower:
                steps.append(normalizers.Lowercase())
        if not steps:
            return None
        return steps[0] if len(steps) == 1 else normalizers.Sequence(steps)


@cache
def _simplifier() -> bytes:
    return charsmap(simplified_characters())


def simplified_characters() -> dict[str, str]:
    """Traditional character to simplified, one by one.

    OpenCC also knows a few hundred phrases in which a character stays (乾隆); a normalizer in
    tokenizer.json can only map characters, and one to one keeps every offset exact.
    """
    opencc = need("opencc", "zh")
    blocks = [part.split("-") for part in _blocks(CHINESE)]
    characters = [chr(c) for first, last in blocks for c in range(ord(first), ord(last) + 1)]
    converted = opencc.OpenCC("t2s").convert("\n".join(characters)).split("\n")
    return {
        old: new
        for old, new in zip(characters, converted, strict=True)
        if old != new and len(new) == 1
    }


def _blocks(ranges: str) -> list[str]:
    return [ranges[i : i + 3] for i in range(0, len(ranges), 3)]
