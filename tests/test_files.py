"""Directories and files appear whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tianci.errors import UserError
from tianci.files import write_directory, write_file


def test_directory_appears_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "out"
    with write_directory(target) as beside:
        (beside / "a.txt").write_text("1")
        assert not target.exists()
    assert (target / "a.txt").read_text() == "1"
    assert [p.name for p in target.parent.iterdir()] == ["out"]


def test_failure_keeps_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with write_directory(target) as beside:
        (beside / "a.txt").write_text("old")
    with pytest.raises(RuntimeError, match="half way"), write_directory(target) as beside:
        (beside / "a.txt").write_text("new")
        raise RuntimeError("half way")
    assert (target / "a.txt").read_text() == "old"
    with write_directory(target) as beside:
        (beside / "b.txt").write_text("new")
    assert [p.name for p in target.iterdir()] == ["b.txt"]
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("I was here")
    with pytest.raises(UserError, match="is a file"), write_directory(tmp_path / "out"):
        pass
    with pytest.raises(UserError, match="cannot write to"), write_directory(tmp_path / "out" / "x"):
        pass
    assert (tmp_path / "out").read_text() == "I was here"


def test_one_file(tmp_path: Path) -> None:
    write_file(tmp_path / "a", "中")
    write_file(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
