"""One case: the command line, called in this process; it must end by itself, in time."""

from __future__ import annotations

import io
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from tianci import cli
from tianci.errors import UserError

SECONDS = 5


class Hung(BaseException):
    """A case that took longer than it may."""


class Finding(AssertionError):  # noqa: N818  (reads as what it is)
    """What a case did that it must not do."""


@contextmanager
def in_time(seconds: int = SECONDS) -> Iterator[None]:
    """Ends the block with `Hung` when it takes too long."""

    def ring(number: int, frame: object) -> None:
        raise Hung(f"took longer than {seconds} s")

    before = [signal.signal(number, ring) for number in (signal.SIGPROF, signal.SIGALRM)]
    # time of this process, because the machine may be busy with others; and a limit for waiting
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(20 * seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        for number, handler in zip((signal.SIGPROF, signal.SIGALRM), before, strict=True):
            signal.signal(number, handler)


class _Output(io.TextIOWrapper):
    """Standard output in memory, as strict about half characters as a real one."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", errors="strict")

    def text(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode("utf-8", "replace")  # type: ignore[attr-defined]


def command(*arguments: object) -> int:
    """Calls tianci as a shell would; the exit code, 0 or 2. Anything else is a finding."""
    errors, output, code = io.StringIO(), _Output(), 0
    with redirect_stderr(errors), redirect_stdout(output):
        try:
            cli.main([str(one) for one in arguments])
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0
    said = errors.getvalue()
    if code not in (0, 2) or "Traceback" in said:
        raise Finding(f"exit code {code}: {said[-600:]}")
    complaint = [line for line in said.splitlines() if line.startswith("tianci: ")]
    if code == 2 and (len(complaint) != 1 or said.count("\n") != 1):
        raise Finding(f"exit code 2, but not one line: {said[:600]!r}")
    return code


def reading(function: Callable[..., object], *arguments: object) -> int:
    """Calls a function that reads files; 0, or 2 where it says in a UserError what is wrong."""
    try:
        result = function(*arguments)
        if isinstance(result, Iterator):
            for _ in result:
                pass
    except UserError as error:
        if not str(error).strip():
            raise Finding("a UserError without words") from error
        return 2
    return 0


def attempt(run: Callable[[Path], int], folder: Path) -> str | None:
    """What is wrong with how a case ended; None when it ended as promised."""
    try:
        with in_time():
            run(folder)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # PanicException of Rust libraries is no Exception
        kind = type(error).__name__
        place = error.__traceback__
        where = ""
        while place is not None:
            code = place.tb_frame.f_code
            if "/tianci/" in code.co_filename:
                where = f"{code.co_filename.rpartition('/tianci/')[2]}:{place.tb_lineno}"
            place = place.tb_next
        return f"{kind} in {where or 'a library'}: {str(error)[:300]}"
    return None
