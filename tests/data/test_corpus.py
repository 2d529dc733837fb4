from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.data.conftest import ids
from tianci.data.corpus import Corpus, token_type
from tianci.data.prepare import PrepareSettings, prepare
from tianci.data.statistics import entropies
from tianci.errors import UserError
from tianci.files import read_json, write_json
from tianci.manifest import write_sealed

TEXT = """The cat sat.
The dogs sat on the mat!

今天天气很好。
我们去公园看书，很好。

cats?
"""


@pytest.fixture
def store(tmp_path: Path, vocabulary: Path) -> Path:
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    settings = PrepareSettings(held=0.0, layout="lines")
    prepare([tmp_path / "text.txt"], vocabulary, tmp_path / "store", settings)
    return tmp_path / "store"


def test_documents_by_hand(store: Path) -> None:
    corpus = Corpus(store)
    train, held = corpus.split("train"), corpus.split("held")
    assert (train.documents, train.sentences, train.tokens) == (3, 5, 33)
    assert (held.documents, held.sentences, held.tokens) == (0, 0, 0)
    assert [s.tolist() for s in train.document(0)] == [
        ids("the", "cat", "sat", "."),
        ids("the", "dog", "##s", "sat", "on", "the", "mat", "!"),
    ]
    assert [s.tolist() for s in train.document(1)] == [
        ids(*"今天天气很好。"),
        ids(*"我们去公园看书，很好。"),
    ]
    assert [s.tolist() for s in train.document(2)] == [ids("cat", "##s", "?")]
    shard, local = train.locate(2)
    assert (shard, local) == (train.shards[0], 2)
    assert shard.sentences.tolist() == [0, 4, 12, 19, 30, 33]
    assert shard.documents.tolist() == [0, 2, 4, 5]
    assert shard.tokens.dtype == "uint16"
    assert shard.word_starts(0, 3) is None


def test_the_store_is_complete_in_itself(store: Path) -> None:
    corpus = Corpus(store)
    tokenizer = corpus.tokenizer()
    assert len(tokenizer) == corpus.info["vocabulary"] == 29
    assert tokenizer.decode(corpus.split("train").document(0)[0].tolist()) == "the cat sat."
    corpus.check()


def test_token_types() -> None:
    assert token_type(65_536).itemsize == 2
    assert token_type(65_537).itemsize == 4


def test_chinese_words(tmp_path: Path, vocabulary: Path) -> None:
    pytest.importorskip("jieba")
    (tmp_path / "text.txt").write_text(
        "今天天气很好。\nThe cats sat，我们去公园\n", encoding="utf-8"
    )
    settings = PrepareSettings(held=0.0, words="jieba")
    prepare([tmp_path / "text.txt"], vocabulary, tmp_path / "store", settings)
    shard = Corpus(tmp_path / "store").split("train").shards[0]
    starts = shard.word_starts(0, 17)
    assert starts is not None
    # 今天天气 | 很 | 好 | 。   The | cat ##s | sat | ， | 我们 | 去 | 公园
    expected = [1, 0, 0, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 0]
    assert starts.astype(int).tolist() == expected
    part = shard.word_starts(9, 16)
    assert part is not None
    assert part.astype(int).tolist() == expected[9:16]


def test_what_is_not_a_corpus_is_refused(store: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such directory"):
        Corpus(tmp_path / "nothing")
    with pytest.raises(UserError, match="not a corpus"):
        Corpus(tmp_path)
    with pytest.raises(UserError, match=r'unknown split "test"; .*known: held, train'):
        Corpus(store).split("test")
    manifest = store / "corpus.json"
    info = read_json(manifest)
    write_json(manifest, {**info, "version": 99})
    with pytest.raises(UserError, match="version 99"):
        Corpus(store)
    with pytest.raises(UserError, match=r"corpus.json is damaged"):
        write_json(manifest, {**info, "vocabulary": 30})
        Corpus(store)
    write_sealed(manifest, {**info, "vocabulary": 30})
    with pytest.raises(UserError, match="29 entries, but the store was made with 30"):
        Corpus(store).tokenizer()
    manifest.unlink()
    with pytest.raises(UserError, match="not finished; run the same"):
        Corpus(store)


def test_damage_is_found(store: Path) -> None:
    [shard] = Corpus(store).split("train").shards
    path = shard.directory / "tokens.bin"
    data = bytearray(path.read_bytes())
    data[3] ^= 1
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"tokens.bin has changed: its sha256 is another"):
        Corpus(store).check()
    path.write_bytes(data[:-2])
    with pytest.raises(UserError, match=r"tokens.bin has \d+ bytes instead of \d+"):
        Corpus(store)
    path.unlink()
    with pytest.raises(UserError, match=r"tokens.bin is missing"):
        Corpus(store)


def test_reading_needs_no_torch(store: Path) -> None:
    script = (
        "import sys\n"
        "from tianci.data.corpus import Corpus\n"
        f"Corpus({str(store)!r}).split('train').document(0)\n"
        "import tianci.data.prepare\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_entropies_leave_no_file_mapped(store: Path) -> None:
    corpus = Corpus(store)
    before = entropies(corpus)
    shards = corpus.split("train").shards
    assert not any({"tokens", "sentences"} & set(vars(shard)) for shard in shards)
    assert shards[0].tokens.tolist()[:2] == ids("the", "cat")  # mapped again when asked
    assert entropies(corpus) == before
