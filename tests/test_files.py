"""Directories and files appear whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.kill_points import killed
from tianci import files
from tianci.errors import UserError
from tianci.files import remove_directory, sweep, write_directory, write_file


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


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with write_directory(tmp_path / "link") as beside:
        (beside / "a.txt").write_text("new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real/a.txt").read_text() == "new"
    assert {p.name for p in tmp_path.iterdir()} == {"real", "link"}


@pytest.mark.parametrize("one_move", [True, False])
def test_killed_anywhere_the_old_or_the_new_one_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_move: bool
) -> None:
    """Also where directories cannot change places in one move: the next writer mends it."""
    if not one_move:
        monkeypatch.setattr(files, "exchange", lambda *_: False)
    target = tmp_path / "out"

    def write(text: str) -> None:
        with write_directory(target) as beside:
            (beside / "a").write_text(text)
            (beside / "b").write_text(text)

    write("old")
    seen, gone, at = set(), 0, 1
    while killed(tmp_path, at, lambda: write("new")):
        if not one_move:
            gone += not target.exists()
            sweep(tmp_path, "out")
        texts = {path.read_text() for path in target.iterdir()}
        assert len(texts) == 1 and len(list(target.iterdir())) == 2
        seen |= texts
        write("old")
        assert [p.name for p in tmp_path.iterdir()] == ["out"]  # nothing of the killed one is left
        at += 1
    assert at > 10 and seen == {"old", "new"} and gone == (0 if one_move else 1)


def test_removed_as_a_whole(tmp_path: Path) -> None:
    def fill() -> None:
        for n in range(4):
            (tmp_path / "out").mkdir(exist_ok=True)
            (tmp_path / "out" / str(n)).write_text("")

    fill()
    at = 1
    while killed(tmp_path, at, lambda: remove_directory(tmp_path / "out")):
        left = list((tmp_path / "out").iterdir()) if (tmp_path / "out").exists() else []
        assert len(left) in (0, 4)
        sweep(tmp_path)
        fill()
        at += 1
    assert at > 5 and not list(tmp_path.iterdir())


def test_sweeping_leaves_others_alone(tmp_path: Path) -> None:
    names = [".out.abcdefgh.tmp", ".out.b.abcdefgh.tmp", ".out.lock", ".out.abcdefgh", "out.tmp"]
    for name in names:
        (tmp_path / name).mkdir()
    sweep(tmp_path, "out")
    assert {p.name for p in tmp_path.iterdir()} == set(names[1:])
    (tmp_path / ".x").mkdir()
    (tmp_path / ".x" / ".log.jsonl.abc_efg1.tmp").write_text("half")
    sweep(tmp_path, below=True)
    assert {p.name for p in tmp_path.iterdir()} == {*names[2:], ".x"}
    assert list((tmp_path / ".x").iterdir()) == []
