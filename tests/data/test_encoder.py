from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from tests.data.conftest import ids
from tests.text.strings import WHOLE, random_text
from tianci.data import encoder
from tianci.data.encoder import Encoder, character_kinds
from tianci.text.clean import Cleaning
from tianci.text.tokenizer import Tokenizer

PIECES = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "#NUM#", "the", "##s", "don", "un", "mp", "v"),
    *"abcdefghijklmnopqrstuvwxyz0123456789.,%-[]#'!?，。、的一是在不了有和人这中大为国今天气文A",
    *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz0123456789"),
]


def wordpiece(
    normalizer: normalizers.Normalizer | None, cutting: pre_tokenizers.PreTokenizer
) -> Tokenizer:
    vocabulary = {piece: id for id, piece in enumerate(dict.fromkeys(PIECES))}
    engine = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    if normalizer is not None:
        engine.normalizer = normalizer
    engine.pre_tokenizer = cutting
    engine.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return Tokenizer(engine)


def rules(tokenizer: Tokenizer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(tokenizer.engine.to_str())
    return found


def strings(count: int) -> list[str]:
    rng = random.Random(5)
    bits = [*WHOLE, *"中 aB-.\u0301\u200b\x01，é5%\t\u3000", " the ", "[MASK]"]
    snippets = ["".join(rng.choices(bits, k=rng.randrange(1, 12))) for _ in range(count)]
    return snippets + [random_text(rng) for _ in range(count)]


BERT = pre_tokenizers.BertPreTokenizer()
KINDS = {
    "lower": wordpiece(normalizers.BertNormalizer(), BERT),
    "cased": wordpiece(normalizers.BertNormalizer(lowercase=False, strip_accents=False), BERT),
    "chinese together": wordpiece(normalizers.BertNormalizer(handle_chinese_chars=False), BERT),
    "numbers": wordpiece(
        Cleaning(numbers=True, nfkc=True).normalizer(chinese_apart=True, exact=False), BERT
    ),
    "spaces only": wordpiece(normalizers.NFKC(), pre_tokenizers.WhitespaceSplit()),
    "no cleaning": wordpiece(None, pre_tokenizers.Whitespace()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_parts_give_the_ids_of_the_engine(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "MOST_RUNS", 300)  # forgets often
    monkeypatch.setattr(encoder, "BATCH", 100)
    tokenizer = KINDS[kind]
    made = Encoder(tokenizer)
    assert made._kinds is not None
    texts = strings(4000)
    data, lengths = made.encode(texts)
    borders = np.cumsum([0, *lengths])
    found = np.frombuffer(data, np.uint16)
    for number, (text, expected) in enumerate(
        zip(texts, tokenizer.ids(texts, special=False), strict=True)
    ):
        assert found[borders[number] : borders[number + 1]].tolist() == expected, repr(text)
    assert len(made._known) <= 300 + 100 * 40


@pytest.mark.parametrize("kind", KINDS)
def test_english_with_little_else(kind: str) -> None:
    """Such text is looked up in UTF-8, where a Chinese character or sign has three bytes."""
    rng = random.Random(6)
    bits = [*"中，。“”–…’·áé£Ḁ𠀀\xa0\u0301\u200b-.'5", "–,", ",–", "a–b", "l’", "\u2028", "€", "ÿ"]
    words = ["the", "don", "unmp", "cat", "A", "zzz", "1990"]
    texts = []
    for _ in range(3000):
        odd = "".join(rng.choices([*bits, *words, " "], k=rng.randrange(1, 6)))
        texts.append(" ".join([*rng.choices(words, k=40), odd, *rng.choices(words, k=40)]))
    data, lengths = Encoder(KINDS[kind]).encode(texts)
    expected = KINDS[kind].ids(texts, special=False)
    assert lengths.tolist() == [len(row) for row in expected]
    assert np.frombuffer(data, np.uint16).tolist() == [id for row in expected for id in row]


def test_one_special_token_does_not_send_all_to_the_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Encoder(KINDS["lower"])
    sent: list[int] = []
    directly = made._directly

    def counted(batch: Sequence[str]) -> list[bytes]:
        sent.append(len(batch))
        return directly(batch)

    monkeypatch.setattr(made, "_directly", counted)
    texts = ["the cat"] * 3000
    texts[1234] = "a [MASK]"
    texts[2000] = "one\ntwo"
    data, lengths = made.encode(texts)
    expected = KINDS["lower"].ids(texts, special=False)
    assert lengths.tolist() == [len(row) for row in expected]
    assert np.frombuffer(data, np.uint16).tolist() == [id for row in expected for id in row]
    assert sum(sent) <= 2 * encoder.FEW + 20  # and a few runs


def test_tokenizers_that_look_beyond_a_space_go_through_the_engine() -> None:
    cutting = pre_tokenizers.Metaspace()
    assert character_kinds(rules(wordpiece(None, cutting))) is None
    assert character_kinds(rules(wordpiece(normalizers.Prepend("x"), BERT))) is None
    assert character_kinds(rules(wordpiece(normalizers.Replace("a b", "c"), BERT))) is None
    late = wordpiece(normalizers.BertNormalizer(), BERT)
    late.engine.add_tokens([tokenizers.AddedToken("two words", normalized=True)])
    assert character_kinds(rules(late)) is None
    data, lengths = Encoder(late).encode(["the Two Words the", ""])
    assert lengths.tolist() == [3, 0]
    assert len(data) == 6


def test_special_tokens_in_the_text() -> None:
    tokenizer = wordpiece(normalizers.BertNormalizer(), BERT)
    tokenizer.engine.add_special_tokens(["[two words]", "中文"])
    texts = ["the [two words], [MASK]the中文", "中文 [mask]", "the", ""]
    data, lengths = Encoder(tokenizer).encode(texts)
    expected = tokenizer.ids(texts, special=False)
    assert lengths.tolist() == [len(row) for row in expected]
    assert np.frombuffer(data, "<u2").tolist() == [id for row in expected for id in row]


def test_characters_that_become_several_tokens() -> None:
    """NFKC makes three dots of …; then it is no character that stands alone."""
    tokenizer = wordpiece(
        normalizers.Sequence([normalizers.NFKC(), normalizers.BertNormalizer()]), BERT
    )
    data, lengths = Encoder(tokenizer).encode(["the…", "中…，a"])
    dot, unknown = tokenizer.id("."), tokenizer.id("[UNK]")
    assert np.frombuffer(data, "<u2").tolist()[:4] == [tokenizer.id("the"), dot, dot, dot]
    assert lengths.tolist() == [4, 6]
    assert unknown not in np.frombuffer(data, "<u2")


def test_large_vocabularies_take_four_bytes() -> None:
    vocabulary = {f"w{i}": i for i in range(70_000)} | {"[UNK]": 70_000}
    engine = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    engine.pre_tokenizer = pre_tokenizers.Whitespace()
    data, lengths = Encoder(Tokenizer(engine)).encode(["w69999 w1", "w65536"])
    assert np.frombuffer(data, "<u4").tolist() == [69_999, 1, 65_536]
    assert lengths.tolist() == [2, 1]


def test_by_hand(vocabulary: Path) -> None:
    data, lengths = Encoder(Tokenizer.load(vocabulary)).encode(
        ["The cats sat.", "今天 x", "[MASK]!"]
    )
    expected = ids("the", "cat", "##s", "sat", ".", "今", "天", "[UNK]", "[MASK]", "!")
    assert np.frombuffer(data, "<u2").tolist() == expected
    assert lengths.tolist() == [5, 3, 2]


def test_runs_of_equal_bytes_in_different_encodings() -> None:
    """ぁ is 41 30 in UTF-16, which is A0 in UTF-8; each is remembered for itself."""
    tokenizer = wordpiece(normalizers.BertNormalizer(), BERT)
    made = Encoder(tokenizer)
    for text in ["A0 a", "ぁ中中", "A0 a", "ぁ中中", "c\x01 a", "1–2", "a,”b"]:
        data, _ = made.encode([text])
        assert np.frombuffer(data, "<u2").tolist() == tokenizer.ids([text], special=False)[0]
