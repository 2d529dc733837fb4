"""Counting words and choosing what to learn from."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from tianci.text import count
from tianci.text.count import APART, CLAUSES, WordCounter
from tianci.text.pieces import _thinned


def counter(pattern: object, splitter: object) -> WordCounter:
    engine = Tokenizer(models.BPE())
    engine.normalizer = normalizers.Lowercase()
    engine.pre_tokenizer = splitter
    return WordCounter(engine, pattern, None)


def test_words() -> None:
    words = counter(APART, pre_tokenizers.BertPreTokenizer())
    words.add(["The cat, the 天地 mat", "THE天"])
    words.add(["a-b"])
    assert words.words() == {
        "the": 3, "天": 2, ",": 1, "-": 1, "a": 1, "b": 1, "cat": 1, "mat": 1, "地": 1
    }  # fmt: skip


def test_the_space_before_a_word() -> None:
    """The first word of a line has none, also when lines are counted together."""
    words = counter(CLAUSES, pre_tokenizers.Metaspace(prepend_scheme="never"))
    words.add(["the cat", "the 天地", "cat"])
    assert words.words() == {"the": 2, "cat": 1, "▁cat": 1, "▁天地": 1}


def test_same_words_as_the_engine() -> None:
    """The cuts made beforehand are cuts that the engine makes anyway."""
    text = "Don't 用Python3写，e.g. 3.5%的café！  「天 地」 x_y"
    splitter = pre_tokenizers.BertPreTokenizer()
    words = counter(APART, splitter)
    words.add([text])
    spaced = "".join(f" {c} " if "\u4e00" <= c <= "\u9fff" else c for c in text.lower())
    expected = [word for word, _ in splitter.pre_tokenize_str(spaced)]
    assert sorted(w for w, n in words.words().items() for _ in range(n)) == sorted(expected)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(count, "MOST_WORDS", 1000)
    words = counter(APART, pre_tokenizers.BertPreTokenizer())
    for number in range(50):
        words.add([f"often w{number}x{other}" for other in range(100)])
    assert len(words.chunks) <= 1000
    assert words.words()["often"] == 5000


def test_thinning() -> None:
    """Frequent words stay as they are; of the rare ones a part stands for all."""
    words = {f"often{number}": 50 for number in range(20)}
    words |= {f"rare{number:05}": 1 for number in range(5000)}
    few, each = _thinned(words, 10_000)
    assert each == 9  # 45,000 characters of rare words into 5,000
    assert all(few[f"often{number}"] == 50 for number in range(20))
    rare = [count for word, count in few.items() if word.startswith("rare")]
    assert set(rare) == {9}
    assert sum(rare) == pytest.approx(5000, rel=0.15)
    assert _thinned(words, 100_000) == (words, 1)


def test_no_torch() -> None:
    code = "import sys, tianci.text.learn, tianci.cli.vocab, tianci.cli.tokenize\n"
    code += "assert not {'torch', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
