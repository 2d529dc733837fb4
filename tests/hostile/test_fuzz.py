"""No file crashes the command line: 20,000 wrong files here, a million under `make soak`.

The cases are the same in every run, so that a run fails by a change and not by luck; new ones are
drawn by the soak (benchmarks/soak_fuzz.py), or here with another TIANCI_FUZZ_SEED. They are read in
a process of their own (worker.py): a crash is a finding of its target, not the end of all tests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.guard import Finding, attempt, command
from tests.hostile.targets import targets
from tests.hostile.worker import CRASH, ENDLESS, Worker

CASES = int(os.environ.get("TIANCI_FUZZ_CASES", "20000"))
SEED = int(os.environ.get("TIANCI_FUZZ_SEED", "1"))
NAMES = [target.name for target in targets()]


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    worker = Worker(tmp_path_factory.mktemp("hostile"), CASES, SEED)
    yield worker
    worker.close()


@pytest.mark.parametrize("name", NAMES)
def test_no_wrong_file_crashes(name: str, worker: Worker) -> None:
    wrong = worker.ask(NAMES.index(name))
    assert wrong is None, wrong


def test_the_guard_sees_what_it_should(tmp_path: Path, worker: Worker) -> None:
    assert "ZeroDivisionError" in str(attempt(lambda folder: 1 // 0, tmp_path))
    assert "Hung" in str(worker.ask(ENDLESS))


def test_a_crash_is_a_finding_and_not_the_end(worker: Worker) -> None:
    assert "Fatal Python error: Segmentation fault" in str(worker.ask(CRASH))
    assert "Hung" in str(worker.ask(ENDLESS))  # by another process


def test_exit_codes_and_lines_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    from tianci import cli
    from tianci.errors import UserError

    def fail(error: Exception) -> None:
        def run(*arguments: object, **options: object) -> None:
            raise error

        monkeypatch.setattr(cli.tianci, "main", run)

    fail(UserError("bad\nfile \x1b[2J\u202e"))
    assert command("info") == 2  # one line, although what the file says has two
    fail(RuntimeError("boom"))
    with pytest.raises(Finding, match="exit code 1"):
        command("info")
