"""Files of all sorts become lines; what is not text is named with file and line."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path

import pytest

from tianci.errors import UserError
from tianci.text import source
from tianci.text.source import find_files, read_blocks, read_lines, total_bytes

TEXT = "first\n\n第二行\u2028still\x0bthe\x0csame\x85line\r\nlast\rone"
LINES = [(1, "first"), (2, ""), (3, "第二行\u2028still\x0bthe\x0csame\x85line"), (4, "last\rone")]


def test_plain_gz_zst(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    raw = TEXT.encode()
    for name, content in (
        ("a.txt", raw),
        (
            "a.txt.gz",
            gzip.compress(raw[:9]) + gzip.compress(raw[9:]),
        ),  # two members, as pigz writes
        ("a.txt.zst", zstandard.compress(raw[:9]) + zstandard.compress(raw[9:])),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        assert list(read_lines(path)) == LINES, name


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert find_files(["-"]) == [Path("-")]
    assert total_bytes([Path("-")]) is None
    assert list(read_lines(Path("-"))) == LINES


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 64])
def test_chunks_do_not_show(chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Characters, \\r\\n and lines may be cut anywhere when reading."""
    monkeypatch.setattr(source, "CHUNK", chunk)
    path = tmp_path / "a.txt"
    path.write_bytes(TEXT.encode())
    assert list(read_lines(path)) == LINES
    assert [line for block in read_blocks(path) for line in block] == [line for _, line in LINES]


def test_mark_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\ntwo\n")
    assert list(read_lines(path)) == [(1, "one"), (2, "two")]
    path.write_bytes("one\ntwo\n".encode("utf-16"))
    with pytest.raises(UserError, match=r"line 1: this is UTF-16.*iconv"):
        list(read_lines(path))


@pytest.mark.parametrize("chunk", [4, 1 << 20])
def test_not_text(chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "CHUNK", chunk)
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo\nthr\xc4\xe3e\nfour\n")  # GBK
    with pytest.raises(UserError, match=r"a\.txt, line 3: byte 0xc4 is not UTF-8; convert"):
        list(read_lines(path))
    path.write_bytes(b"one\ntw\0o\nthree\n")
    with pytest.raises(UserError, match=r"a\.txt, line 2: a NUL byte"):
        list(read_lines(path))
    path.write_bytes("一二".encode()[:-1])  # ends within a character
    with pytest.raises(UserError, match=r"line 1: byte 0xe4 is not UTF-8"):
        list(read_lines(path))


def test_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(TEXT.encode() * 100)[:-20])
    with pytest.raises(UserError, match="damaged"):
        list(read_lines(path))
    path.write_bytes(b"this is no gzip file")
    with pytest.raises(UserError, match="damaged"):
        list(read_lines(path))
    other = tmp_path / "a.zst"
    other.write_bytes(b"nor is this")
    with pytest.raises(UserError, match="damaged"):
        list(read_lines(other))


def test_endless_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "CHUNK", 10)
    monkeypatch.setattr(source, "LONGEST_LINE", 50)
    path = tmp_path / "a.txt"
    path.write_bytes(b"short\n" + b"x" * 100)
    with pytest.raises(UserError, match="line 2: longer than"):
        list(read_lines(path))


def test_find_files(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "sub/c.txt", "sub/.hidden", ".git/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "nothing.txt").write_text("")
    names = [path.relative_to(tmp_path).as_posix() for path in find_files([tmp_path])]
    assert names == ["a.txt", "b.txt", "sub/c.txt"]
    assert find_files([tmp_path / "*.txt"]) == [tmp_path / "a.txt", tmp_path / "b.txt"]
    twice = find_files([tmp_path / "b.txt", tmp_path])
    assert [path.name for path in twice] == ["b.txt", "a.txt", "c.txt"]  # as given, none twice
    assert total_bytes(twice) == 3


def test_nothing_to_find(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    for name, message in (
        ("missing.txt", "no such file"),
        ("*.gz", "no file matches"),
        ("empty.txt", "the file is empty"),
        (".", "no file with text"),
    ):
        with pytest.raises(UserError, match=message):
            find_files([tmp_path / name])
    with pytest.raises(UserError, match="no text given"):
        find_files([])


def test_progress_counts_bytes_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "CHUNK", 100)
    path = tmp_path / "a.txt"
    path.write_text("0123456789\n" * 100)
    heard: list[int] = []
    assert len(list(read_lines(path, heard.append))) == 100
    assert len(heard) > 5
    assert sum(heard) == 1100 == total_bytes([path])
