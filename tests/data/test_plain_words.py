from __future__ import annotations

import json
import random
import string
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from tianci.data import plain_words as module
from tianci.data.plain_words import ODD, PlainWords, plain_words
from tianci.text.tokenizer import Tokenizer

BERT = pre_tokenizers.BertPreTokenizer()
PIECES = ["[UNK]", "a", "ab", "abcab", "abcabcab", "##a", "##b", "##ca", "##caba", "##1", "1", "A"]


def made(
    normalizer: normalizers.Normalizer = normalizers.BertNormalizer(),  # noqa: B008
    cutting: pre_tokenizers.PreTokenizer = BERT,
    pieces: Sequence[str] = PIECES,
    **options: int,
) -> tuple[Tokenizer, PlainWords | None]:
    vocabulary = {piece: id for id, piece in enumerate(pieces)}
    engine = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", **options))
    engine.normalizer = normalizer
    engine.pre_tokenizer = cutting
    tokenizer = Tokenizer(engine)
    return tokenizer, plain_words(rules(tokenizer))


def rules(tokenizer: Tokenizer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(tokenizer.engine.to_str())
    return found


def cut(words: PlainWords, texts: list[str]) -> list[list[int]]:
    """The ids of each word, all cut at once."""
    rows = np.array([text.encode() for text in texts], np.bytes_)
    letters = words.letters(rows.view(np.uint8).reshape(len(texts), rows.itemsize))
    ids, counts = words.ids(letters)
    assert len(counts) == len(texts)
    return [row.tolist() for row in np.split(ids, np.cumsum(counts)[:-1])]


@pytest.mark.parametrize("lower", [True, False])
def test_words_give_the_ids_of_the_engine(lower: bool) -> None:
    tokenizer, words = made(normalizers.BertNormalizer(lowercase=lower), max_input_chars_per_word=9)
    assert words is not None
    rng = random.Random(0)
    texts = ["".join(rng.choices("abcA1", k=rng.randrange(1, 12))) for _ in range(5000)]
    assert cut(words, texts) == tokenizer.ids(texts, special=False)


@pytest.mark.parametrize("lower", [True, False])
def test_odd_words_and_pieces(lower: bool) -> None:
    """Pieces without order or reason, among them some that no plain word can have."""
    rng = random.Random(1)
    letters = string.ascii_letters + string.digits
    some = ["".join(rng.choices(letters[:4] + "AZ9", k=rng.randrange(1, 9))) for _ in range(400)]
    later = ["".join(rng.choices(letters[:4] + "AZ9z", k=rng.randrange(1, 6))) for _ in range(400)]
    pieces = ["[UNK]", "##", "#", "é", "##é", *letters, *some, *(f"##{piece}" for piece in later)]
    normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer, words = made(normalizer, pieces=list(dict.fromkeys(pieces)))
    assert words is not None
    texts = ["".join(rng.choices("abcdAZ9zQ", k=rng.randrange(1, 130))) for _ in range(2000)]
    texts += ["".join(rng.choices("abcdAZ9", k=rng.randrange(1, 17))) for _ in range(5000)]
    found = cut(words, texts)
    assert found == tokenizer.ids(texts, special=False)
    assert 0 < sum(row == [0] for row in found) < len(found) / 2
    assert max(map(len, found)) > 20


def test_by_hand() -> None:
    _, words = made()
    assert words is not None
    # the longest piece first, even where a shorter one would have led to an end
    assert cut(words, ["abcabcab", "ABcaba", "abcabb", "abc"]) == [[4], [3, 5], [3, 6], [0]]


def test_what_is_no_plain_word() -> None:
    _, words = made()
    assert words is not None
    units = np.array([list(map(ord, text)) for text in ("a0", "é0", "a-", "\u0161b", "中b")], "<u2")
    assert (words.letters(units) == ODD).any(1).tolist() == [False, True, True, True, True]


def test_without_any_plain_piece() -> None:
    tokenizer, words = made(pieces=["[UNK]", "é", "##"])
    assert words is not None
    assert cut(words, ["a", "aa"]) == tokenizer.ids(["a", "aa"], special=False) == [[0], [0]]


def test_trees_that_are_too_large_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CELLS", 100)
    assert made()[1] is None


def test_tokenizers_with_other_rules_are_left_to_the_engine() -> None:
    assert made(normalizers.Replace("a", "b"))[1] is None
    digits = pre_tokenizers.Sequence([BERT, pre_tokenizers.Digits(individual_digits=True)])
    assert made(cutting=digits)[1] is None
    late, _ = made()
    late.engine.add_tokens([tokenizers.AddedToken("ab", normalized=True)])
    assert plain_words(rules(late)) is None
    letters = tokenizers.Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    assert plain_words(rules(Tokenizer(letters))) is None
