"""Expressions of public tokenizers are run; those that could take for ever are refused."""

from __future__ import annotations

import pytest
import tokenizers
from tokenizers import Regex, models, normalizers, pre_tokenizers

from tianci.errors import UserError
from tianci.text.clean import NUMBER
from tianci.text.learn import CLAUSE
from tianci.text.patterns import KNOWN, check_engine, check_pattern
from tianci.text.words import CHINESE

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
DEEPSEEK = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PUBLIC = [
    GPT2, LLAMA3, QWEN2, DEEPSEEK, NUMBER, " {2,}", r"\d", r"\s+", r"[一-龥぀-ゟ゠-ヿ]+",
    r"\p{N}{1,3}", CLAUSE,
    r"\p{P}", r"[^\s]+|\s+", r"[\r\n]", r"\p{L}+", f"[{CHINESE}]", *KNOWN,
]  # fmt: skip


@pytest.mark.parametrize("pattern", PUBLIC)
def test_public_expressions_are_run(pattern: str) -> None:
    check_pattern(pattern)
    pre_tokenizers.Split(Regex(pattern), "isolated").pre_tokenize_str("so it is 12,000. 今天\n ok")


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+$", r"(a|a)*c", r"(a|aa)+$", " +$", r"\s+(?!\S)", r"\s*[\r\n]+", r"(.*)\1",
        r"a+(?![ab])",
        "a?" * 30 + "a" * 30, r"(a{1,50}){1,50}b", r"(x+x+)+y", r".*.*=.*", r"(?:a+)+b", r"(?~abc)",
        r"(?<n>a)\g<n>*", r"\p{L}*\p{L}*!", "a{0,60}" * 3 + "b", "(?=(a+))a*b", "[" * 50,
        "(" * 50, "x" * 5000,
        "a{99999}",
    ],
)  # fmt: skip
def test_expressions_without_a_bound_are_refused(pattern: str) -> None:
    with pytest.raises(UserError, match="could take far longer"):
        check_pattern(pattern)


def engine(**parts: object) -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    for name, part in parts.items():
        setattr(made, name, part)
    return made


def test_replacing_cannot_explode() -> None:
    doubling = [normalizers.Replace("a", "aa") for _ in range(40)]
    with pytest.raises(UserError, match="times longer"):
        check_engine(engine(normalizer=normalizers.Sequence(doubling)))
    with pytest.raises(UserError, match="steps"):
        check_engine(engine(normalizer=normalizers.Sequence([normalizers.NFC()] * 200)))


def test_words_without_an_end_are_refused() -> None:
    model = models.WordPiece({"[UNK]": 0}, unk_token="[UNK]", max_input_chars_per_word=10**6)
    with pytest.raises(UserError, match="max_input_chars_per_word"):
        check_engine(tokenizers.Tokenizer(model))
    check_engine(engine(pre_tokenizer=pre_tokenizers.Split(Regex(GPT2), "isolated")))
