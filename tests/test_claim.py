"""One writer per directory: rivals are told, and a dead holder leaves nothing that blocks."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tianci.claim import claim
from tianci.errors import UserError
from tianci.files import write_directory

HOLD = """
import sys
import threading
from tianci.claim import claim
with claim(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(path: Path) -> subprocess.Popen[str]:
    """Another process that has claimed a directory."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def test_a_rival_is_told_who_writes(tmp_path: Path) -> None:
    other = holder(tmp_path / "out")
    told = rf"written by another process \(number {other.pid}\)"
    with pytest.raises(UserError, match=told), claim(tmp_path / "out"):
        pass
    with claim(tmp_path / "out2"), claim(tmp_path / "ou"):  # neighbours are free
        pass
    other.communicate()
    with claim(tmp_path / "out"):
        assert (tmp_path / ".out.lock").read_text() == f"{os.getpid()}\n"
    assert list(tmp_path.iterdir()) == []


def test_a_killed_holder_blocks_nobody(tmp_path: Path) -> None:
    other = holder(tmp_path / "out")
    other.send_signal(signal.SIGKILL)
    other.communicate()
    assert (tmp_path / ".out.lock").exists()
    with claim(tmp_path / "out"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_same_process_may_claim_again_and_below(tmp_path: Path) -> None:
    with claim(tmp_path / "run"), claim(tmp_path / "run"), claim(tmp_path / "run" / "best"):
        assert [p.name for p in tmp_path.iterdir()] == [".run.lock"]
    assert list(tmp_path.iterdir()) == []


def test_folders_above_stay_only_if_something_was_written(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), claim(tmp_path / "a" / "b" / "c"):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with claim(tmp_path / "a" / "b" / "c"):
        (tmp_path / "a" / "b" / "c").mkdir()
    assert [p.name for p in (tmp_path / "a" / "b").iterdir()] == ["c"]


def test_no_right_to_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write to"), claim(tmp_path / "file" / "x"):
        pass


def test_below_a_claimed_directory_folders_are_made(tmp_path: Path) -> None:
    with claim(tmp_path / "run"), write_directory(tmp_path / "run" / "deep" / "x"):
        pass
    assert (tmp_path / "run" / "deep" / "x").is_dir()


def test_a_rival_waits_for_the_number_of_a_holder_that_has_just_locked(tmp_path: Path) -> None:
    lock = tmp_path / ".out.lock"
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        writing = threading.Timer(0.1, lambda: (handle.write("123\n"), handle.flush()))
        writing.start()
        with pytest.raises(UserError, match=r"\(number 123\)"), claim(tmp_path / "out"):
            pass
        writing.join()


def test_a_holder_that_never_says_its_number_is_told_without_it(tmp_path: Path) -> None:
    with (tmp_path / ".out.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="by another process; wait"), claim(tmp_path / "out"):
            pass
