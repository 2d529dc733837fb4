"""Ten seconds in which everything that matters is done once, small, and compared."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tianci.doctor.check_error import CheckError
from tianci.doctor.fixed_numbers import compare_forward
from tianci.doctor.small_training import train_and_resume

PATIENCE = 120.0  # seconds until a process that does not start counts as stuck
WRITTEN = 8 << 20  # bytes for the disk

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "今", "天", "play", "##ing", "!"]
TEXT, IDS = "今天Playing！", [2, 5, 6, 7, 8, 1, 3]
OFFSETS = [(0, 0), (0, 1), (1, 2), (2, 6), (6, 9), (9, 10), (0, 0)]


@dataclass(frozen=True)
class Outcome:
    """How one check came out."""

    name: str
    passed: bool
    seconds: float
    said: str
    advice: str = ""


def run_all(folder: Path) -> Iterator[Outcome]:
    """One outcome after the other; `folder` is where the disk is tried."""
    checks: dict[str, Callable[[], str]] = {
        "writing": lambda: write_safely(folder),
        "processes": start_process,
        "clock": watch_clock,
        "tokens": tokenize,
        "numbers": compare_forward,
        "training": train_and_resume,
    }
    for name, check in checks.items():
        began = time.perf_counter()
        try:
            said, advice, passed = check(), "", True
        except CheckError as error:
            said, advice, passed = str(error), error.advice, False
        except Exception as error:  # whatever else breaks is what we are looking for
            said, passed = f"{type(error).__name__}: {error}", False
            advice = "reinstall tianci and torch; if it stays, report it with this output"
        yield Outcome(name, passed, time.perf_counter() - began, said, advice)


COUNT = 6  # of the checks above, for the bar


def write_safely(folder: Path) -> str:
    """Writes, forces to the disk and reads back."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".tianci-doctor.") as file:
            content = os.urandom(1 << 16) * (WRITTEN >> 16)
            began = time.perf_counter()
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            took = time.perf_counter() - began
            file.seek(0)
            if file.read() != content:
                raise CheckError(f"{folder} gave back other bytes than were written",
                             "this disk cannot be trusted; work on another one")  # fmt: skip
    except OSError as error:
        raise CheckError(f"{folder} cannot be written ({error.strerror})",
                     "change to a directory of yours with free space") from error  # fmt: skip
    return f"{WRITTEN >> 20} MB written and forced to the disk in {took * 1000:.0f} ms"


def _double(number: int, answers: Any) -> None:
    answers.send(2 * number)


def start_process() -> str:
    """A process that starts, answers and ends, as servers and trainings start theirs."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_double, args=(21, there), daemon=True)
    process.start()
    there.close()
    way_out = "look at limits of processes and memory (ulimit -a), and at security modules"
    try:
        if not here.poll(PATIENCE):
            raise CheckError("a new process did not answer", way_out)
        answer = here.recv()
    except EOFError:
        raise CheckError("a new process ended without an answer", way_out) from None
    finally:
        process.join(5)
        if process.is_alive():
            process.kill()
    if answer != 42:
        raise CheckError(f"a new process answered {answer} instead of 42", way_out)
    return "a new process answers"


def watch_clock() -> str:
    """That the clock on the wall goes forward, and as fast as the steady one."""
    last, steady, wall = time.time(), time.monotonic(), time.time()
    for _ in range(200):
        now = time.time()
        if now < last:
            raise CheckError(f"the clock went back by {last - now:.3f} s",
                         "let one program only set the clock (chrony or ntpd)")  # fmt: skip
        last = now
        time.sleep(0.001)
    drift = abs((time.time() - wall) - (time.monotonic() - steady))
    if drift > 0.1:
        raise CheckError(f"the clock jumped by {drift:.1f} s",
                     "let one program only set the clock (chrony or ntpd)")  # fmt: skip
    return "goes forward"


def tokenize() -> str:
    """One text whose tokens are known."""
    from tianci.text.tokenizer import Tokenizer

    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
        found = Tokenizer.load(name).encode([TEXT])[0]
    if found.ids != IDS or [tuple(pair) for pair in found.offsets] != OFFSETS:
        raise CheckError(f"{TEXT} became {found.ids} {found.offsets}, not {IDS} {OFFSETS}",
                     "reinstall tokenizers: pip install --force-reinstall tokenizers")  # fmt: skip
    return "a known text has its known tokens"
