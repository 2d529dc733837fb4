"""Threads that infer. A batch alone gets all threads of the machine; batches that run side by side
get one share each, which is faster than one after the other: nothing waits at a barrier.

The first lane also loads the models, so that it alone has a team of OpenMP threads: where two
teams have more threads than the machine, libgomp puts them to sleep at every barrier.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

Task = Callable[[], None]
MOST = 4  # lanes by default: each holds Python's lock for a part of its time


def usual_lanes(threads: int) -> int:
    """How many lanes so many threads are worth."""
    return max(1, min(threads, MOST))


class Lane:
    """One thread and whether it works; `use` tells the numeric library how many threads it has."""

    def __init__(self, number: int, use: Callable[[int], object]):
        self.busy = False
        self._use, self._threads = use, 0
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=f"inference-{number}", daemon=True)
        self._thread.start()

    def give(self, task: Task) -> None:
        """Has it done, behind what was given before."""
        self._tasks.put(task)

    def use(self, threads: int) -> None:
        """From within: how many threads the next batch may use."""
        if threads != self._threads:
            self._use(threads)
            self._threads = threads

    def stop(self) -> None:
        """Ends the thread behind what was given."""
        self._tasks.put(None)

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
            del task  # or the last answers would stay until the next request
