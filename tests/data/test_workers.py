from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Event

import pytest

from tianci.data.workers import Staff
from tianci.errors import UserError


def multiply(factor: int) -> Callable[[int], Callable[[], int]]:
    factor + 0

    def work(item: int) -> Callable[[], int]:
        time.sleep(0.03 * (item % 3 == 0))  # some are slow, the order must not care
        print("noise on standard output")
        if item == 13:
            raise UserError("13 is bad luck")
        if item == 14:
            raise KeyError("x")
        if item == 15:
            os._exit(3)
        return lambda: finish(item)

    def finish(item: int) -> int:
        time.sleep(0.03 * (item % 4 == 1))
        if item == 16:
            raise UserError("no room for 16")
        return item * factor

    return work


def in_order(items: Iterable[int], factor: object, workers: int) -> list[int]:
    with Staff(workers, __name__) as staff:
        return list(staff.in_order(items, multiply, (factor,)))


@pytest.mark.parametrize("workers", [1, 3])
def test_answers_come_in_order(workers: int) -> None:
    assert in_order(range(12), 2, workers) == list(range(0, 24, 2))
    assert in_order([], 2, workers) == []


def test_errors_come_back() -> None:
    with pytest.raises(UserError, match="13 is bad luck"):
        in_order([1, 13, 2, 3, 4], 2, 2)
    with pytest.raises(UserError, match="no room for 16"):
        in_order([1, 16, 2, 3, 4], 2, 2)
    with pytest.raises(RuntimeError, match="KeyError"):
        in_order([14], 2, 2)
    with pytest.raises(RuntimeError, match="ended with code 3"):
        in_order([15, 1, 2], 2, 2)
    with pytest.raises(RuntimeError, match="TypeError"):
        in_order([1], None, 2)


def meet() -> Callable[[object], Callable[[], bool]]:
    """Two items that can only end together: the disk part of one beside the work on the other."""
    written, worked = Event(), Event()
    count = 0

    def work(_: object) -> Callable[[], bool]:
        nonlocal count
        count += 1
        if count == 1:
            return finish
        met = written.wait(20)
        worked.set()
        return lambda: met

    def finish() -> bool:
        written.set()
        return worked.wait(20)

    return work


def test_a_worker_goes_on_while_it_waits_for_the_disk() -> None:
    with Staff(2, __name__) as staff:
        assert list(staff.in_order(range(4), meet, ())) == [True] * 4  # two items for each worker


def test_few_items_wait() -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for item in range(12):
            taken += 1
            yield item

    with Staff(2, __name__) as staff:
        answers = staff.in_order(items(), multiply, (1,))
        next(answers)
        assert taken <= 4
        answers.close()


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_workers_vanish_with_their_parent() -> None:
    script = (
        "import time, os\n"
        "from tianci.data.workers import Worker\n"
        "workers = [Worker('json') for _ in range(2)]\n"
        "print(*(w._process.pid for w in workers), flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    children = [int(pid) for pid in parent.stdout.readline().split()]
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    while any(_runs(pid) for pid in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(children) == 2
    assert not any(_runs(pid) for pid in children)


def test_half_an_item_of_a_killed_parent_is_no_error() -> None:
    script = "import tianci.data.workers as w; w.serve()"
    half = pickle.dumps((multiply, (b"x" * 1000,)))[:500]
    worker = subprocess.run([sys.executable, "-c", script], input=half, capture_output=True)
    assert (worker.returncode, worker.stderr) == (0, b"")


def _runs(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
