from __future__ import annotations

import hashlib
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tianci.data import gather, statistics, survey
from tianci.data.corpus import Corpus
from tianci.data.prepare import PrepareSettings, prepare
from tianci.data.survey import held_count
from tianci.errors import UserError

WORDS = ["the", "cat", "sat", "on", "mat", "dog", "dogs", "今天", "很好", "我们"]


def make_text(path: Path, documents: int, seed: int = 0) -> Path:
    rng = random.Random(seed)
    lines = []
    for number in range(documents):
        for _ in range(rng.randrange(1, 6)):
            lines.append(" ".join(rng.choices(WORDS, k=rng.randrange(2, 9))) + f" {number} .")
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def content(store: Path) -> dict[str, str]:
    """The hash of every file by its name."""
    return {
        str(path.relative_to(store)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(store.rglob("*"))
        if path.is_file()
    }


def texts(store: Path, split: str) -> list[str]:
    """Each document as text, in order."""
    corpus = Corpus(store)
    tokenizer = corpus.tokenizer()
    part = corpus.split(split)
    return [
        " / ".join(tokenizer.decode(s.tolist()) for s in part.document(i))
        for i in range(part.documents)
    ]


def run(*arguments: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tianci", "prepare", *map(str, arguments)],
        capture_output=True,
        text=True,
        input=text,
    )


@pytest.fixture
def many_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "FEWEST", 2000)


@pytest.mark.usefixtures("many_shards")
def test_the_number_of_workers_does_not_matter(tmp_path: Path, vocabulary: Path) -> None:
    text = make_text(tmp_path / "text.txt", 600)
    results = [prepare([text], vocabulary, tmp_path / f"store{n}", threads=n) for n in (1, 2, 3)]
    first, *others = [content(tmp_path / f"store{n}") for n in (1, 2, 3)]
    assert len([name for name in first if name.endswith("tokens.bin")]) > 10
    assert others == [first, first]
    assert results[0]["documents"] == 600
    assert len(texts(tmp_path / "store1", "train")) == 580
    assert len(texts(tmp_path / "store1", "held")) == 20


@pytest.mark.usefixtures("many_shards")
@pytest.mark.parametrize("dedupe", [False, True])
def test_text_that_is_not_kept_is_read_again(
    dedupe: bool, tmp_path: Path, vocabulary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = make_text(tmp_path / "text.txt", 300)
    part = text.read_text(encoding="utf-8")[:5000].rpartition("\n\n")[0]
    often = "\n\n".join(f"很好\nthe dog {n}" for n in range(30))
    text.write_text("\n\n".join([text.read_text(encoding="utf-8"), part, often, "   \n\ncat"]))
    settings = PrepareSettings(dedupe=dedupe, repeated=20)
    found = []
    for most in (1 << 30, 3000, 0):
        monkeypatch.setattr(survey, "MOST_KEPT", most)
        result = prepare([text], vocabulary, tmp_path / str(most), settings, threads=1)
        found.append([content(tmp_path / str(most)), result["faults"], result["characters"]])
    assert {fault["name"] for fault in found[0][1]} >= {"duplicate_documents", "repeated_lines"}
    assert found[1:] == [found[0], found[0]]


@pytest.mark.usefixtures("many_shards")
def test_every_document_is_there_once_and_in_order(tmp_path: Path, vocabulary: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join("cat " * (n % 50 + 1) + "." for n in range(500)), encoding="utf-8")
    prepare([path], vocabulary, tmp_path / "store", PrepareSettings(held=0.0))
    found = [text.count("cat") for text in texts(tmp_path / "store", "train")]
    assert found == [n % 50 + 1 for n in range(500)]
    corpus = Corpus(tmp_path / "store")
    train = corpus.split("train")
    assert len(train.shards) > 5
    shard, local = train.locate(499)
    assert (shard, local) == (train.shards[-1], shard.document_count - 1)


def test_a_killed_run_goes_on(tmp_path: Path, vocabulary: Path) -> None:
    """kill -9 at several moments; what was finished stays, and the end is the same to the byte."""
    text = make_text(tmp_path / "text.txt", 30_000)
    prepare([text], vocabulary, tmp_path / "whole", threads=2)
    expected = content(tmp_path / "whole")
    store = tmp_path / "store"
    command = [sys.executable, "-m", "tianci", "prepare", str(text), "--tokenizer", str(vocabulary)]
    kills = 0
    for wanted in (1, 4):
        process = subprocess.Popen(
            [*command, "--out", str(store), "--threads", "2", "--quiet"],
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        while process.poll() is None and len(list(store.glob("[th]*/shard.json"))) < wanted:
            time.sleep(0.005)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
        with pytest.raises(UserError, match="not finished"):
            Corpus(store)
    assert kills == 2
    time.sleep(0.5)  # workers may still finish what they hold
    finished = {p.parent: p.stat().st_mtime_ns for p in store.glob("[th]*-*/shard.json")}
    assert finished
    prepare([text], vocabulary, store, threads=2)
    assert content(store) == expected
    for directory, written in finished.items():  # kept, not made again
        assert (directory / "shard.json").stat().st_mtime_ns == written


@pytest.mark.usefixtures("many_shards")
def test_new_text_replaces_the_store_at_the_end(tmp_path: Path, vocabulary: Path) -> None:
    text = make_text(tmp_path / "text.txt", 100)
    store = tmp_path / "store"
    prepare([text], vocabulary, store)
    old = content(store)
    prepare([text], vocabulary, store)
    assert content(store) == old
    make_text(text, 100, seed=1)
    prepare([text], vocabulary, store)
    new = content(store)
    assert not {name for name in old if name.endswith("tokens.bin")} & set(new)
    (tmp_path / "bad.txt").write_bytes(b"good\n\xff\n")
    with pytest.raises(UserError, match="line 2"):
        prepare([text, tmp_path / "bad.txt"], vocabulary, store)
    assert content(store) == new  # bad input leaves what was there


def test_held_out_documents(tmp_path: Path, vocabulary: Path) -> None:
    assert [held_count(n, 0.005) for n in (0, 1, 2, 30, 1000, 10_000, 10**6)] == [
        *(0, 0, 1, 3, 20, 50, 2000)
    ]
    assert held_count(1000, 0.0) == 0
    text = make_text(tmp_path / "text.txt", 300)
    twice = tmp_path / "twice.txt"
    twice.write_text(text.read_text(encoding="utf-8") * 2, encoding="utf-8")
    prepare([text], vocabulary, tmp_path / "one")
    prepare([twice], vocabulary, tmp_path / "two")
    one, two = texts(tmp_path / "one", "held"), texts(tmp_path / "two", "held")
    assert len(one) == 20
    assert two == one * 2  # copies fall on the same side
    assert not set(two) & set(texts(tmp_path / "two", "train"))


def test_faults_are_found_and_removed(tmp_path: Path, vocabulary: Path) -> None:
    path = tmp_path / "text.txt"
    lines = ["the cat .", "ADVERTISEMENT", "", "Привет мир", "the mat .", ""]
    lines += ["the cat .", "ADVERTISEMENT", "", "dogs .", "ADVERTISEMENT", "", "cat " * 30, ""]
    lines += ["on the mat .", ""] * 8
    path.write_text("\n".join(lines), encoding="utf-8")
    empty = tmp_path / "empty.jsonl"
    empty.write_text('{"text": ""}\n{"text": "the dogs ."}\n{"text": " "}\n', encoding="utf-8")
    settings = PrepareSettings(repeated=3, unbroken=100, held=0.0, layout="lines")
    result = prepare([path, empty], vocabulary, tmp_path / "all", settings)
    faults = {fault["name"]: fault for fault in result["faults"]}
    assert {name: fault["count"] for name, fault in faults.items()} == {
        "duplicate_documents": 8,
        "repeated_lines": 11,
        "unexpected_script_lines": 1,
        "empty_documents": 2,
        "unbroken_documents": 1,
    }
    assert result["duplicate_documents"] == 8
    assert faults["duplicate_documents"]["examples"][0] == {
        "file": str(path),
        "line": 7,
        "text": "the cat .",
        "copy_of": f"{path}, line 1",
    }
    assert faults["repeated_lines"]["examples"] == [
        {"file": str(path), "line": 15, "text": "on the mat .", "times": 8},
        {"file": str(path), "line": 2, "text": "ADVERTISEMENT", "times": 3},
    ]
    assert faults["unexpected_script_lines"]["examples"] == [
        {"file": str(path), "line": 4, "text": "Привет мир", "script": "Cyrillic"}
    ]
    assert [e["line"] for e in faults["empty_documents"]["examples"]] == [1, 3]
    assert faults["unbroken_documents"]["examples"][0]["line"] == 13

    settings = PrepareSettings(repeated=3, unbroken=100, held=0.0, layout="lines", dedupe=True)
    prepare([path, empty], vocabulary, tmp_path / "clean", settings)
    unknown = "[UNK]"
    assert [t.replace(unknown, "?") for t in _raw(tmp_path / "clean")] == [
        "the cat . / ?",
        "? ? / the mat .",
        "dog ##s .",
        ("cat " * 30).strip(),
        "on the mat .",
        "the dog ##s .",
    ]


def test_places_of_faults_are_lines_of_the_file(tmp_path: Path, vocabulary: Path) -> None:
    odd, often, usual = "Привет мир", "ADVERTISEMENT", ["the mat .", "dogs ."] * 8
    texts = [["the cat .", often], ["the dogs .", odd, often], usual]
    records = "".join(json.dumps({"text": "\n".join(text)}) + "\n" for text in texts)
    # one blank line inside a document, two between documents
    apart = "\n\n\n".join("\n\n".join(text) for text in texts)
    for name, text, borders, places in (
        ("text.jsonl", records, "auto", (2, 1)),
        ("text.txt", apart, "gap", (6, 1)),  # of a document with blank lines, its first one
        ("text.txt", "\n\n".join(map("\n".join, texts)), "blank", (5, 2)),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
        settings = PrepareSettings("lines", borders, repeated=2, held=0.0)  # type: ignore[arg-type]
        result = prepare([tmp_path / name], vocabulary, tmp_path / borders, settings)
        faults = {fault["name"]: fault["examples"] for fault in result["faults"]}
        lines = [faults["unexpected_script_lines"][0]["line"]]
        lines += [e["line"] for e in faults["repeated_lines"] if e["text"] == often]
        assert tuple(lines) == places, borders


def _raw(store: Path) -> list[str]:
    corpus = Corpus(store)
    tokenizer = corpus.tokenizer()
    train = corpus.split("train")
    return [
        " / ".join(" ".join(map(tokenizer.token, s.tolist())) for s in train.document(i))
        for i in range(train.documents)
    ]


def test_the_command_line(tmp_path: Path, vocabulary: Path) -> None:
    text = make_text(tmp_path / "text.txt", 200)
    done = run(text, "--tokenizer", vocabulary, "--out", tmp_path / "store", "--json", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["documents"] == 200
    assert result["sentences"] == Corpus(tmp_path / "store").info["statistics"]["sentences"]
    assert 0 < result["bigram_entropy"] < result["unigram_entropy"] < 5
    done = run(
        "-", "--tokenizer", vocabulary, "--out", tmp_path / "piped", text=text.read_text("utf-8")
    )
    assert done.returncode == 0
    assert "unigram entropy" in done.stdout
    assert "read as a sentence per line; a document ends at a blank line: -" in done.stdout
    assert texts(tmp_path / "piped", "train") == texts(tmp_path / "store", "train")


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt", b"fine\nb\xe4d\n", "a.txt, line 2: byte 0xe4 is not UTF-8"),
        ("a.txt", b"fine\n\0\n", "a.txt, line 2: a NUL byte"),
        ("a.txt", b"", "the file is empty"),
        ("a.txt", b" \n\n  \n", "no text in"),
        ("a.jsonl", b'{"text": "a"}\n{"body": "b"}\n', 'a.jsonl, line 2: no field "text"'),
        ("a.jsonl", b'{"text": "a"}\n{oops\n', "a.jsonl, line 2: not JSON"),
        ("a.txt.gz", b"this is not gzip", "a.txt.gz: "),
    ],
)
def test_bad_input_leaves_nothing_behind(
    tmp_path: Path, vocabulary: Path, name: str, data: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UserError) as error:
        prepare([path], vocabulary, tmp_path / "store")
    assert message in str(error.value)
    assert sorted(tmp_path.iterdir()) == before


def test_bad_calls_end_with_code_2_and_one_sentence(tmp_path: Path, vocabulary: Path) -> None:
    text = make_text(tmp_path / "text.txt", 5)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine.doc").touch()
    good = ["--tokenizer", vocabulary, "--out", tmp_path / "store"]
    for arguments, message in [
        ((tmp_path / "no.txt", *good), "no such file"),
        ((text, "--tokenizer", tmp_path / "folder", "--out", tmp_path / "x"), "no tokenizer here"),
        ((text, "--tokenizer", vocabulary, "--out", text), "is a file; give a directory"),
        ((text, "--tokenizer", vocabulary, "--out", tmp_path / "folder"), "no token store"),
        ((text, *good, "--held", "2"), "held is 2.0, but"),
    ]:
        done = run(*arguments)
        assert done.returncode == 2, message
        assert message in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
        assert not (tmp_path / "store").exists()


def test_a_corpus_of_one_document_has_entropies_too(tmp_path: Path, vocabulary: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("the cat sat .\n" * 30, encoding="utf-8")
    result = prepare([path], vocabulary, tmp_path / "store", PrepareSettings(layout="lines"))
    assert result["splits"]["held"]["documents"] == 0
    # 27 sentences learned, 3 measured: 108 tokens of 4 kinds, all equally frequent
    assert result["unigram_entropy"] == pytest.approx(1.41, abs=0.03)
    assert result["bigram_entropy"] < 0.1


def test_entropies_of_a_sample(
    tmp_path: Path, vocabulary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sentence longer than the sample is cut, not left out."""
    monkeypatch.setattr(statistics, "MOST_LEARNED", 50)
    path = tmp_path / "text.txt"
    path.write_text("cat dog " * 500 + "\n\n" + "dog cat " * 500, encoding="utf-8")
    result = prepare([path], vocabulary, tmp_path / "store", PrepareSettings(borders="blank"))
    # 50 tokens of two kinds, equally frequent: p = (25 + 2 / 29) / 52
    assert result["unigram_entropy"] == pytest.approx(math.log(52 / (25 + 2 / 29)), abs=1e-6)
    assert result["bigram_entropy"] < 0.3
