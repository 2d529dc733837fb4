"""Worker processes that vanish with their parent.

Each is a fresh interpreter at the other end of two pipes. When the parent dies, even by kill -9,
its pipe ends, and the worker with it; a pool of the standard library would leave orphans. Nothing
of the caller's main module is imported, so a script needs no `if __name__ == "__main__"`.

Work that ends by waiting for the disk gives back a function for that part. A worker calls it in a
thread of its own and goes on with its next item, which is there already.
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
from functools import partial
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, BinaryIO, cast

from tianci.errors import UserError

# from an item to a function that waits for the disk, if need be, and gives the answer
Work = Callable[[Any], Callable[[], Any]]
# glibc gives large blocks back to the system, which has to zero them anew for the next batch
KEEP_FREED = {"MALLOC_TRIM_THRESHOLD_": str(1 << 24), "MALLOC_MMAP_THRESHOLD_": str(1 << 23)}
AT_ONCE = 2  # items in the hands of a worker: one is written while the other is worked on


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
            env={**KEEP_FREED, **os.environ, **one, "PYTHONPATH": paths},
        )
        self._sending = Lock()
        self._answered = Event()  # whatever was asked last
        self._answered.set()

    def begin(self, make: Callable[..., Work], arguments: tuple[Any, ...]) -> None:
        """Says how to build the work function; what goes wrong is told by the first answer."""
        self._send(pickle.dumps((make, arguments), protocol=5))

    def __call__(self, item: bytes) -> Any:
        """The answer to a pickled item; may be called from several threads at a time."""
        with self._sending:
            before, mine = self._answered, Event()
            self._answered = mine
            self._send(item)
        before.wait()  # answers come in the order of the items
        try:
            good, value = pickle.load(cast(BinaryIO, self._process.stdout))
        except (EOFError, pickle.UnpicklingError):
            code = self._process.wait()
            raise RuntimeError(
                f"a worker process ended with code {code} (out of memory?); "
                "finished shards are kept: run the same command again to go on"
            ) from None
        finally:
            mine.set()
        if not good:
            raise value
        return value

    def dismiss(self) -> None:
        """Lets the worker go; it ends when it sees that nothing more comes."""
        with suppress(OSError):  # what could not be sent to a dead worker
            cast(BinaryIO, self._process.stdin).close()

    def close(self) -> None:
        """Waits until the worker has ended."""
        self.dismiss()
        cast(BinaryIO, self._process.stdout).close()
        self._process.wait()

    def _send(self, item: bytes) -> None:
        pipe = cast(BinaryIO, self._process.stdin)
        with suppress(BrokenPipeError):  # the answer, or its absence, tells what happened
            pipe.write(item)
            pipe.flush()


def serve() -> None:
    """The life of a worker: builds its function, answers until its input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is for the parent, which ends our input
    source, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not get into the answers
    done: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
    writer = Thread(target=_answer, args=(done, answers))
    writer.start()
    try:
        _work(source, done)
    finally:
        done.put(None)
        writer.join()


def _work(source: BinaryIO, done: SimpleQueue[Callable[[], Any] | None]) -> None:
    """Works on items until there are no more; the parent sees to it that few are under way."""
    work: Work | None = None
    while True:
        try:
            item = pickle.load(source)
        except (EOFError, pickle.UnpicklingError):
            return  # no more items, or half of one: the parent was killed while it sent it
        try:
            if work is None:
                make, arguments = item
                work = make(*arguments)
            else:
                done.put(work(item))
            del item  # or there were two while the next one comes in
        except Exception as error:
            done.put(partial(_fail, error))
            if work is None:
                return


def _fail(error: Exception) -> None:
    raise error


def _answer(done: SimpleQueue[Callable[[], Any] | None], answers: BinaryIO) -> None:
    """Finishes one item after the other and tells the parent, as long as it listens."""
    while finish := done.get():
        try:
            answer = (True, finish())
        except Exception as error:
            answer = (False, _portable(error))
        del finish  # it holds a whole shard
        with suppress(BrokenPipeError):
            pickle.dump(answer, answers, protocol=5)
            answers.flush()


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

        Few items wait, so memory does not grow with the text. The workers go after the last one.
        """
        if not self._workers:
            work = make(*arguments)
            yield from (work(item)() for item in items)
            return
        free: SimpleQueue[Worker] = SimpleQueue()
        for worker in self._workers:
            worker.begin(make, arguments)
        places = len(self._workers) * AT_ONCE
        for number in range(places):  # all have one item before any has two
            free.put(self._workers[number % len(self._workers)])

        def call(item: bytes) -> Any:
            worker = free.get()
            try:
                return worker(item)
            finally:
                free.put(worker)

        waiting: deque[Future[Any]] = deque()
        threads = ThreadPoolExecutor(places)
        try:
            for item in items:
                # as bytes, which are smaller than what they are made of
                waiting.append(threads.submit(call, pickle.dumps(item, protocol=5)))
                del item
                while len(waiting) >= places:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            threads.shutdown(wait=True, cancel_futures=True)
            for worker in self._workers:
                worker.dismiss()
