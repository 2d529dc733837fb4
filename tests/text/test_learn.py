"""Vocabularies of all kinds: exact size, the same every time, read alike by transformers."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.text.strings import random_text
from tianci.errors import UserError
from tianci.text.learn import SPECIAL, SPECIAL_BYTES, Vocabulary, learn
from tianci.text.tokenizer import Tokenizer
from tianci.text.words import is_chinese

KINDS = ["wordpiece", "char", "bpe", "byte-bpe", "unigram"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many ties: words of random letters, nearly all of them as rare as each other."""
    rng = random.Random(7)
    words = ["".join(rng.choices("abcdefgh", k=rng.randint(2, 7))) for _ in range(2500)]
    signs = "天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏"
    lines = []
    for number in range(1500):
        chinese = "".join(rng.choices(signs, k=6))
        lines.append(" ".join([*rng.sample(words, 5), chinese, str(number)]))
    path = tmp_path_factory.mktemp("corpus") / "ties.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [300, 777])
def test_size_is_exact(kind: str, size: int, corpus: Path, tmp_path: Path) -> None:
    tokenizer, report = learn([corpus], Vocabulary(kind=kind, size=size))
    assert len(tokenizer) == report["size"] == size
    usual = SPECIAL_BYTES if kind == "byte-bpe" else SPECIAL
    assert [tokenizer.token(id) for id in range(5)] == list(usual)
    assert len({tokenizer.token(id) for id in range(size)}) == size  # no gaps, nothing twice
    tokenizer.save(tmp_path)
    assert (tmp_path / "vocab.txt").exists() == (kind in ("wordpiece", "char"))
    if kind in ("wordpiece", "char"):
        lines = (tmp_path / "vocab.txt").read_text(encoding="utf-8").splitlines()
        assert lines == [tokenizer.token(id) for id in range(size)]


SCRIPT = """
import hashlib, sys
from pathlib import Path
from tianci.text.learn import Vocabulary, learn
corpus, out = sys.argv[1:]
for kind in ("wordpiece", "char", "bpe", "byte-bpe", "unigram"):
    directory = Path(out, kind)
    directory.mkdir(parents=True)
    learn([corpus], Vocabulary(kind=kind, size=700, numbers=True))[0].save(directory)
    for path in sorted(directory.iterdir()):
        print(kind, path.name, hashlib.sha256(path.read_bytes()).hexdigest())
"""


def test_same_text_same_files(corpus: Path, tmp_path: Path) -> None:
    """In other processes, with other hash seeds and other numbers of threads."""
    outputs = set()
    for number in range(4):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": str(number),
            "RAYON_NUM_THREADS": str(number % 2 + 1),
            "OMP_NUM_THREADS": str(number % 2 + 1),
        }
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(corpus), str(tmp_path / str(number))],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1
    assert len(outputs.pop().splitlines()) == 12  # 2 files each, and vocab.txt of two kinds


def test_the_library_alone_is_not_deterministic() -> None:
    """Why the trainers are our own; when this fails, look whether they can go."""
    script = """
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
words = [a + b + c for a in "abcdefgh" for b in "ijklmnop" for c in "qrstuvwx"]
tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
trainer = trainers.WordPieceTrainer(vocab_size=100, special_tokens=["[UNK]"], show_progress=False)
tokenizer.train_from_iterator([" ".join(words)], trainer)
print(tokenizer.to_str())
"""
    outputs = {
        hashlib.sha256(subprocess.check_output([sys.executable, "-c", script])).hexdigest()
        for _ in range(4)
    }
    assert len(outputs) > 1


@pytest.mark.parametrize("kind", KINDS)
def test_too_little_text(kind: str, tmp_path: Path) -> None:
    """The size that the message offers works."""
    path = tmp_path / "small.txt"
    path.write_text(
        "the cat sat on the mat\nthe cat sat\n今天天气不错\n今天很好\n" * 3, encoding="utf-8"
    )
    with pytest.raises(UserError, match="different pieces") as caught:
        learn([path], Vocabulary(kind=kind, size=5000))
    most = int(str(caught.value).split("--size ")[1].split()[0])
    tokenizer, report = learn([path], Vocabulary(kind=kind, size=most))
    assert len(tokenizer) == most
    assert report["measured_on"] == "training lines"
    with pytest.raises(UserError, match="only"):
        learn([path], Vocabulary(kind=kind, size=most + 1))


@pytest.mark.parametrize("kind", KINDS)
def test_smaller_than_the_alphabet(kind: str, corpus: Path) -> None:
    with pytest.raises(UserError, match="at least") as caught:
        learn([corpus], Vocabulary(kind=kind, size=20))
    least = int(str(caught.value).split("at least ")[1].split(";")[0])
    assert len(learn([corpus], Vocabulary(kind=kind, size=least))[0]) == least
    with pytest.raises(UserError, match="at least"):
        learn([corpus], Vocabulary(kind=kind, size=least - 1))


def test_pieces_by_hand(tmp_path: Path) -> None:
    """l-o 9 times, lo-w 7 times; then e-r; w-e does not come, because low takes the w."""
    path = tmp_path / "low.txt"
    path.write_text("low low low low low lower lower lo lo er er er\n", encoding="utf-8")
    tokenizer, _ = learn([path], Vocabulary(kind="wordpiece", size=5 + 10 + 3, coverage=1.0))
    alphabet = {"l", "o", "w", "e", "r", "##l", "##o", "##w", "##e", "##r"}
    assert {tokenizer.token(id) for id in range(5, 15)} == alphabet
    assert [tokenizer.token(id) for id in range(15, 18)] == ["lo", "low", "er"]
    assert tokenizer.encode(["low lower"], special=False)[0].tokens == ["low", "low", "##e", "##r"]


def test_char_keeps_chinese_single(tmp_path: Path) -> None:
    """Also the characters that BERT's own rule does not know (extension G)."""
    path = tmp_path / "zh.txt"
    path.write_text("今天天气𰀀𰀁 weather 今天天气𰀀𰀁 weather\n" * 20, encoding="utf-8")
    tokenizer, _ = learn([path], Vocabulary(kind="char", size=28))
    tokens = [tokenizer.token(id).removeprefix("##") for id in range(5, 28)]
    assert {"今", "天", "气", "𰀀", "𰀁", "weather"} <= set(tokens)
    assert not [token for token in tokens if len(token) > 1 and any(map(is_chinese, token))]


def test_rare_characters_do_not_fill_the_vocabulary(tmp_path: Path) -> None:
    """A thousand characters that occur twice, against a word that occurs a thousand times."""
    rare = "".join(chr(0x4E00 + number) for number in range(1000))
    path = tmp_path / "rare.txt"
    path.write_text("weather forecast\n" * 2000 + f"{rare}\n" * 2, encoding="utf-8")
    tokenizer, _ = learn([path], Vocabulary(kind="char", size=100, coverage=0.9))
    assert tokenizer.id("weather") is not None
    assert tokenizer.id("forecast") is not None
    full, _ = learn([path], Vocabulary(kind="char", size=1038, coverage=0.9))
    assert full.id("\u4e00") is not None  # when there is room, they come in


def test_special_tokens(corpus: Path) -> None:
    wanted = Vocabulary(kind="char", size=400, numbers=True, special=["[E1]", "[E2]"])
    tokenizer, _ = learn([corpus], wanted)
    assert [tokenizer.token(id) for id in range(5, 8)] == ["#NUM#", "[E1]", "[E2]"]
    encoded = tokenizer.encode(["天[E1]地[E2]"], special=False)[0]
    assert encoded.tokens == ["天", "[E1]", "地", "[E2]"]
    for special in (["[CLS]"], ["[E1]", "[E1]"], [""], [" x"]):
        with pytest.raises(UserError, match="special token"):
            learn([corpus], Vocabulary(special=special))


def test_held_back_lines(tmp_path: Path) -> None:
    """A word on held-back lines only is not learned, and counts as unknown when it is measured."""
    path = tmp_path / "many.txt"
    path.write_text("".join(f"line {number}\n" for number in range(3000)), encoding="utf-8")
    _, report = learn([path], Vocabulary(kind="wordpiece", size=60))
    assert report["measured_on"] == "held-back lines"
    assert 10 <= report["lines_measured"] <= 60  # about one in a hundred
    assert report["lines"] == 3000
    assert report["words"] == 2 * (3000 - report["lines_measured"])
    assert report["characters_covered"] == 1.0 and report["unknown_rate"] == 0.0


def test_measures_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "few.txt"
    path.write_text("aa aa aa b\n", encoding="utf-8")
    # entries: a, ##a, aa; b is rarer than the coverage asks for, and then there is no room
    wanted = Vocabulary(kind="wordpiece", size=8, coverage=0.8)
    tokenizer, report = learn([path], wanted)
    assert [tokenizer.token(id) for id in (5, 6, 7)] == ["##a", "a", "aa"]
    assert report["characters_covered"] == pytest.approx(6 / 7)
    assert report["unknown_rate"] == pytest.approx(1 / 4)
    assert report["tokens_per_word"] == 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_reads_the_same(kind: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    rng = random.Random(3)
    texts = [random_text(rng).replace("\n", " ").replace("\0", " ") for _ in range(2500)]
    path = tmp_path / "text.txt"
    path.write_text("\n".join(texts), encoding="utf-8")
    for number, options in enumerate(
        (
            {},
            {"lower": True, "strip_accents": False, "special": ["[E1]"]},
            {"nfkc": True, "numbers": True, "simplify": True},
        )
    ):
        wanted = Vocabulary(kind=kind, size=1400, coverage=0.98, **options)
        tokenizer, _ = learn([path], wanted)
        directory = tmp_path / str(number)
        directory.mkdir()
        tokenizer.save(directory)
        (directory / "config.json").write_text(
            '{"model_type": "bert"}'
        )  # must not change the rules
        theirs = transformers.AutoTokenizer.from_pretrained(directory)
        assert theirs(texts)["input_ids"] == tokenizer.ids(texts)
        again = Tokenizer.load(directory)
        assert again.ids(texts) == tokenizer.ids(texts)
        assert again.kind == kind
        firsts, seconds = texts[:500], texts[500:1000]
        pairs = theirs(firsts, seconds, truncation="longest_first", max_length=16)
        ours = again.encode(firsts, seconds, limit=16)
        assert pairs["input_ids"] == [encoded.ids for encoded in ours]
        assert pairs.get("token_type_ids", [e.segments for e in ours]) == [e.segments for e in ours]
        assert ("token_type_ids" in pairs) == (kind != "byte-bpe")
        names = ("pad", "unk", "cls", "sep", "mask")
        known = [getattr(theirs, f"{name}_token_id") for name in names]
        assert known == ([1, 3, 0, 2, 4] if kind == "byte-bpe" else [0, 1, 2, 3, 4])
        assert theirs.model_max_length == 512
        assert len(theirs) == len(tokenizer) == 1400


def test_byte_bpe_loses_nothing(tmp_path: Path) -> None:
    rng = random.Random(11)
    path = tmp_path / "text.txt"
    path.write_text("hello world 你好，世界\n" * 50, encoding="utf-8")
    tokenizer, _ = learn([path], Vocabulary(kind="byte-bpe", size=280))
    texts = [random_text(rng) for _ in range(5000)] + ["", " ", "\n\n", "  a", "\0"]
    for text, ids in zip(texts, tokenizer.ids(texts, special=False), strict=True):
        assert tokenizer.decode(ids, skip_special=False) == text


def test_byte_bpe_has_the_marks_of_roberta(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("hello world\n" * 50, encoding="utf-8")
    tokenizer, _ = learn([path], Vocabulary(kind="byte-bpe", size=265))
    assert (tokenizer.cls, tokenizer.pad, tokenizer.sep, tokenizer.unknown) == (0, 1, 2, 3)
    (one,) = tokenizer.encode(["xx <mask>"], ["yz"])
    assert one.tokens == ["<s>", "x", "x", "<mask>", "</s>", "</s>", "y", "z", "</s>"]
    assert set(one.segments) == {0}
    # all of one segment, and still each token knows its text
    assert one.surfaces("xx <mask>", "yz")[5:] == ["", "y", "z", ""]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_spaces_survive(kind: str, corpus: Path) -> None:
    tokenizer, _ = learn([corpus], Vocabulary(kind=kind, size=400))
    text = "abc def 天地玄黄 gh"
    assert tokenizer.decode(tokenizer.ids([text])[0]) == text


def test_json_lines_are_read_by_field(tmp_path: Path) -> None:
    """The vocabulary is learned from the texts, not from the JSON around them."""
    plain, records = tmp_path / "a.txt", tmp_path / "a.jsonl"
    texts = ["今天天气不错", 'she said "fine"'] * 30
    plain.write_text("\n".join(texts) + "\n", encoding="utf-8")
    rows = [json.dumps({"label": "x", "body": text}, ensure_ascii=False) for text in texts]
    records.write_text("\n".join(rows) + "\n", encoding="utf-8")
    first, _ = learn([plain], Vocabulary(kind="char", size=30))
    second, _ = learn([records], Vocabulary(kind="char", size=30, field="body"))
    assert first.engine.to_str() == second.engine.to_str()
    with pytest.raises(UserError, match='a.jsonl, line 1: no field "text"'):
        learn([records], Vocabulary(kind="char", size=30))
