from __future__ import annotations

import random

import numpy as np
import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from tianci.data.plain_words import PlainWords, plain_words
from tianci.text.tokenizer import Tokenizer

BERT = pre_tokenizers.BertPreTokenizer()
PIECES = ["[UNK]", "a", "ab", "abcab", "abcabcab", "##a", "##b", "##ca", "##caba", "##1", "1", "A"]


def made(
    normalizer: normalizers.Normalizer = normalizers.BertNormalizer(),  # noqa: B008
    cutting: pre_tokenizers.PreTokenizer = BERT,
    **options: int,
) -> tuple[Tokenizer, PlainWords | None]:
    vocabulary = {piece: id for id, piece in enumerate(PIECES)}
    engine = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", **options))
    engine.normalizer = normalizer
    engine.pre_tokenizer = cutting
    tokenizer = Tokenizer(engine)
    return tokenizer, plain_words(tokenizer, np.dtype("<u2"))


@pytest.mark.parametrize("lower", [True, False])
def test_words_give_the_ids_of_the_engine(lower: bool) -> None:
    tokenizer, words = made(normalizers.BertNormalizer(lowercase=lower), max_input_chars_per_word=9)
    assert words is not None
    rng = random.Random(0)
    texts = ["".join(rng.choices("abcA1", k=rng.randrange(1, 12))) for _ in range(3000)]
    for text, expected in zip(texts, tokenizer.ids(texts, special=False), strict=True):
        assert np.frombuffer(words.ids(text), "<u2").tolist() == expected, text


def test_by_hand() -> None:
    _, words = made()
    assert words is not None
    # the longest piece first, even where a shorter one would have led to an end
    for text, pieces in [("abcabcab", [4]), ("ABcaba", [3, 5]), ("abcabb", [3, 6]), ("abc", [0])]:
        assert np.frombuffer(words.ids(text), "<u2").tolist() == pieces, text


def test_tokenizers_with_other_rules_are_left_to_the_engine() -> None:
    assert made(normalizers.Replace("a", "b"))[1] is None
    digits = pre_tokenizers.Sequence([BERT, pre_tokenizers.Digits(individual_digits=True)])
    assert made(cutting=digits)[1] is None
    late, _ = made()
    late.engine.add_tokens([tokenizers.AddedToken("ab", normalized=True)])
    assert plain_words(late, np.dtype("<u2")) is None
    letters = tokenizers.Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    assert plain_words(Tokenizer(letters), np.dtype("<u2")) is None
