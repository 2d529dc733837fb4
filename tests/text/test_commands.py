"""tianci vocab and tianci tokenize, as they are called."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tianci.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    out, err = capsys.readouterr()
    return int(left.value.code or 0), out, err


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("今天天气不错 the cat 12\n今天 the cat 3.5%\n" * 10, encoding="utf-8")
    return path


def test_vocab_then_tokenize(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "vocab"
    learn = ["vocab", str(corpus), "--size", "25", "--numbers", "--out", str(out), "--json"]
    code, text, errors = run(capsys, *learn)
    assert (code, errors) == (0, "")
    report = json.loads(text)
    assert report["size"] == 25
    assert (report["unknown_rate"], report["characters_covered"]) == (0.0, 1.0)
    assert report["tokens_per_word"] > 0
    assert sorted(path.name for path in out.iterdir()) == [
        "manifest.json",
        "tianci.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.txt",
    ]
    about = json.loads((out / "tianci.json").read_text(encoding="utf-8"))
    assert about["settings"]["vocab"]["numbers"] is True and about["report"]["size"] == 25
    assert len((out / "vocab.txt").read_text(encoding="utf-8").splitlines()) == 25
    assert run(capsys, *learn)[0] == 0  # twice in a row
    code, text, _ = run(capsys, "tokenize", str(out), "今天12.5%", "the", "--json")
    assert code == 0
    first, second = map(json.loads, text.splitlines())
    assert first["tokens"] == ["[CLS]", "今", "天", "#NUM#", "[SEP]"]
    assert first["offsets"] == [[0, 0], [0, 1], [1, 2], [2, 7], [0, 0]]
    assert first["numbers"] == ["12.5%"]
    assert len(first["ids"]) == 5
    assert second["tokens"] == ["[CLS]", "the", "[SEP]"]
    pair = ["tokenize", str(out), "今天", "--pair", "the cat", "--limit", "6", "--json"]
    code, text, _ = run(capsys, *pair)
    assert json.loads(text)["segments"] == [0, 0, 0, 1, 1, 1]
    code, text, _ = run(capsys, "tokenize", str(out), "今天")
    assert code == 0 and "0-1" in text


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"", [], "empty"),
        (b"\xff\xfea", [], "UTF-16"),
        (b"abc\n\xc4\xe3\n", [], "line 2: byte 0xc4 is not UTF-8"),
        (b"abc\n\0\n", [], "line 2: a NUL byte"),
        (b"  \n\n", [], "no text found"),
        (b"abc abc\n", ["--size", "7"], "need at least"),
        (b"abc abc\n", ["--size", "9999"], "only"),
        (b"abc abc\n", ["--special", "[CLS]"], "twice"),
        (None, [], "no such file"),
    ],
)
def test_bad_input_writes_nothing(
    content: bytes | None,
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "in.txt"
    if content is not None:
        path.write_bytes(content)
    before = sorted(tmp_path.iterdir())
    code, text, errors = run(capsys, "vocab", str(path), "--out", str(tmp_path / "v"), *options)
    assert (code, text) == (2, "")
    assert message in errors
    assert len(errors.splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == before


def test_other_files_are_safe(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_text("precious")
    target = str(tmp_path / "model")
    code, _, errors = run(capsys, "vocab", str(corpus), "--size", "25", "--out", target)
    assert code == 2 and "holds other files" in errors
    assert (tmp_path / "model" / "model.safetensors").read_text() == "precious"


def test_standard_input(corpus: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tianci", "vocab", "-", "--size", "34"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "v"), "--json"],
        input=corpus.read_bytes(),
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout)["lines"] == 20
