"""No file crashes the command line: 20,000 wrong files here, a million under `make soak`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hostile.guard import Finding, attempt, command, in_time
from tests.hostile.targets import Target, targets

CASES = int(os.environ.get("TIANCI_FUZZ_CASES", "20000"))
EVERY = targets()
SHARES = sum(target.share for target in EVERY)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.mark.parametrize("target", EVERY, ids=lambda target: target.name)
def test_no_wrong_file_crashes(target: Target, place: Path) -> None:
    target.prepare(place / str(EVERY.index(target)))
    assert target.run(target.folder) == 0, "the example itself is not read"

    @settings(
        max_examples=-(-CASES * target.share // SHARES),
        deadline=None,  # the guard has its own
        database=None,
        derandomize=True,  # the same cases everywhere; the soak draws others
        suppress_health_check=list(HealthCheck),
    )
    @given(st.binary(min_size=12, max_size=48))
    def case(data: bytes) -> None:
        wrong = target.case(data)
        assert wrong is None, f"{target.name}: {wrong}"

    case()


def test_the_guard_sees_what_it_should(tmp_path: Path) -> None:
    assert "ZeroDivisionError" in str(attempt(lambda folder: 1 // 0, tmp_path))

    def endless(folder: Path) -> int:
        with in_time(1):
            while True:
                pass

    assert "Hung" in str(attempt(endless, tmp_path))


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
