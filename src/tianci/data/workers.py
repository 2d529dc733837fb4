"""Worker processes that vanish with their parent.

Each is a fresh interpreter at the other end of two pipes. When the parent dies, even by kill -9,
its pipe ends, and the worker with it; a pool of the standard library would leave orphans. Nothing
of the caller's main module is imported, so a script needs no `if __name__ == "__main__"`.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, BinaryIO, cast

from tianci.errors import UserError

Work = Callable[[Any], Any]


class Worker:
    """One process that builds its `work` function once and then answers one item after another.

    It imports the module with its work at once, while the parent is still busy with other things.
    """

    def __init__(self, module: str):
        paths = os.pathsep.join(path for path in sys.path if path)
        one = dict.fromkeys(("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"import {module}, tianci.data.workers as w; w.serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **one, "PYTHONPATH": paths},
        )

    def begin(self, make: Callable[..., Work], arguments: tuple[Any, ...]) -> None:
        """Says how to build the work function; what goes wrong is told by the first answer."""
        self._send((make, arguments))

    def __call__(self, item: Any) -> Any:
        self._send(item)
        try:
            good, value = pickle.load(cast(BinaryIO, self._process.stdout))
        except (EOFError, pickle.UnpicklingError):
            code = self._process.wait()
            raise RuntimeError(
                f"a worker process ended with code {code} (out of memory?); "
                "finished shards are kept: run the same command again to go on"
            ) from None
        if not good:
            raise value
        return value

    def close(self) -> None:
        """Lets the worker go; it ends when it sees that nothing more comes."""
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # what could not be sent to a dead worker
                cast(BinaryIO, pipe).close()
        self._process.wait()

    def _send(self, item: Any) -> None:
        pipe = cast(BinaryIO, self._process.stdin)
        with suppress(BrokenPipeError):  # the answer, or its absence, tells what happened
            pickle.dump(item, pipe, protocol=5)
            pipe.flush()


def serve() -> None:
    """The life of a worker: builds its function, answers until its input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is for the parent, which ends our input
    source, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not get into the answers
    work: Work | None = None
    while True:
        try:
            item = pickle.load(source)
        except EOFError:
            return
        try:
            if work is None:
                make, arguments = item
                work = make(*arguments)
                continue
            answer = (True, work(item))
        except Exception as error:
            answer = (False, _portable(error))
        try:
            pickle.dump(answer, answers, protocol=5)
            answers.flush()
        except BrokenPipeError:
            return
        if work is None:
            return


def _portable(error: Exception) -> Exception:
    if isinstance(error, UserError | OSError):
        return error
    return RuntimeError(f"in a worker process: {type(error).__name__}: {error}")


class Staff:
    """Several workers, or none when one is enough: then the work is done right here."""

    def __init__(self, workers: int, module: str):
        self._workers = [Worker(module) for _ in range(workers)] if workers > 1 else []

    def __enter__(self) -> Staff:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.close()

    def in_order(
        self, items: Iterable[Any], make: Callable[..., Work], arguments: tuple[Any, ...]
    ) -> Generator[Any, None, None]:
        """The answers to all items, in the order of the items, whichever worker was faster.

        At most one item more than there are workers waits, so memory does not grow with the text.
        """
        if not self._workers:
            yield from map(make(*arguments), items)
            return
        free: SimpleQueue[Worker] = SimpleQueue()
        for worker in self._workers:
            worker.begin(make, arguments)
            free.put(worker)

        def call(item: Any) -> Any:
            worker = free.get()
            try:
                return worker(item)
            finally:
                free.put(worker)

        waiting: deque[Future[Any]] = deque()
        threads = ThreadPoolExecutor(len(self._workers))
        try:
            for item in items:
                waiting.append(threads.submit(call, item))
                del item
                while len(waiting) > len(self._workers):
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            threads.shutdown(wait=True, cancel_futures=True)
