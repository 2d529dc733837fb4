"""Requests that wait together run together: one thread that packs waiting inputs by kind of work.

Nothing waits on purpose: while one batch runs, the next one gathers. An input that raises is found
by halving its batch, so it fails alone. Work whose client has gone is not begun.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

from tianci.serve.refusal import Refusal


class Kind(Hashable, Protocol):
    """Inputs of equal kinds may share a batch; the answers must not depend on it."""

    @property
    def patient(self) -> bool:
        """Whether it takes long and lets other work in between its steps."""

    def run(self, items: Sequence[Any], step: Callable[[], None]) -> list[Any]:
        """One answer per item; patient work calls `step` now and then."""


class Job:
    """The inputs of one request and what becomes of them."""

    def __init__(self, size: int, loop: asyncio.AbstractEventLoop):
        self.results: list[Any] = [None] * size
        self.left = size
        self.gone = False  # dropped by its client, or failed
        self.future: asyncio.Future[list[Any]] = loop.create_future()
        self._loop = loop

    def settle(self, error: BaseException | None = None) -> None:
        """Wakes the request, from any thread."""

        def wake() -> None:
            if self.future.done():
                return
            if error is None:
                self.future.set_result(self.results)
            else:
                self.future.set_exception(error)

        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(wake)


class Entry(NamedTuple):
    """One input in the queue."""

    job: Job
    place: int
    item: Any
    cost: int  # tokens
    ticket: int
    seconds: float  # that it will probably take; 0 for patient work, which lets others in


class Batcher:
    """The queue and the thread that works it off."""

    def __init__(
        self,
        batch_tokens: int,
        queue_tokens: int,
        watch: Callable[[int, int], object] = lambda inputs, tokens: None,
        queue_seconds: float = math.inf,
    ):
        self.batch_tokens, self.queue_tokens, self.watch = batch_tokens, queue_tokens, watch
        self.queue_seconds = queue_seconds
        self.waiting = 0  # tokens in the queue
        self.inputs = 0  # inputs in the queue
        self.ahead = 0.0  # seconds that the queue will probably take
        self._pace: dict[type, float] = {}  # seconds per token, lately, by class of work
        self._queues: dict[Kind, deque[Entry]] = {}
        self._ticket = 0
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="inference", daemon=True)
        self._thread.start()

    @property
    def full(self) -> bool:
        """Whether there is no room for a usual request; a small one may still be taken."""
        room = min(self.batch_tokens, self.queue_tokens // 8)
        return self.waiting + room > self.queue_tokens or self.ahead > self.queue_seconds

    def submit(self, kind: Kind, items: Sequence[Any], costs: Sequence[int]) -> Job:
        """Queues the inputs of a request, called from the event loop; 429 where there is no room.

        A request that is larger than the whole queue is taken when nothing else waits.
        """
        job, total = Job(len(items), asyncio.get_running_loop()), sum(costs)
        with self._changed:
            late = not kind.patient and self.ahead > self.queue_seconds
            if self.waiting and (late or self.waiting + total > self.queue_tokens):
                raise self.overloaded()
            queue = self._queues.setdefault(kind, deque())
            pace = 0.0 if kind.patient else self._pace.get(type(kind), 0.0)
            for place, (item, cost) in enumerate(zip(items, costs, strict=True)):
                self._ticket += 1
                queue.append(Entry(job, place, item, cost, self._ticket, cost * pace))
            self._count(islice(queue, len(queue) - len(items), None), 1)
            self._changed.notify()
        if not items:
            job.settle()
        return job

    def overloaded(self) -> Refusal:
        """429, and when to come again."""
        after = {"Retry-After": str(self.seconds())}
        return Refusal("Overloaded", "the queue is full; try later", after)

    def seconds(self) -> int:
        """How long the queue will take, at least 1."""
        return max(1, min(60, round(self.ahead)))

    def drop(self, job: Job) -> None:
        """Frees what of a job has not begun."""
        with self._changed:
            job.gone = True
            for kind, queue in list(self._queues.items()):
                self._count([entry for entry in queue if entry.job is job], -1)
                kept = deque(entry for entry in queue if entry.job is not job)
                if kept:
                    self._queues[kind] = kept
                else:
                    del self._queues[kind]

    def stop(self) -> None:
        """Ends the thread behind the batch it works on."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join(timeout=30)

    # ------------------------------------------------------------ the thread

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._queues and not self._stopped:
                    self._changed.wait()
                if self._stopped:
                    return
                kind, entries = self._take(list(self._queues))
            self._batch(kind, entries)

    def _between(self) -> None:
        """Runs one waiting batch that is quick, while patient work pauses."""
        with self._changed:
            quick = [kind for kind in self._queues if not kind.patient]
            if not quick:
                return
            kind, entries = self._take(quick)
        self._batch(kind, entries)

    def _take(self, kinds: Sequence[Kind]) -> tuple[Kind, list[Entry]]:
        """The kind whose first input has waited longest, and as many of its inputs as fit."""
        kind = min(kinds, key=lambda one: self._queues[one][0].ticket)
        queue, used = self._queues[kind], 0
        taken: list[Entry] = []
        while queue and (not taken or used + queue[0].cost <= self.batch_tokens):
            taken.append(queue.popleft())
            used += taken[-1].cost
        if not queue:
            del self._queues[kind]
        self._count(taken, -1)
        return kind, taken

    def _count(self, entries: Iterable[Entry], sign: int) -> None:
        """Adds what came to the sums, or takes off what went."""
        for entry in entries:
            self.inputs += sign
            self.waiting += sign * entry.cost
            self.ahead += sign * entry.seconds
        if not self.inputs:
            self.ahead = 0.0  # sums of fractions do not come back to 0 by themselves

    def _batch(self, kind: Kind, entries: list[Entry]) -> None:
        entries = [entry for entry in entries if not entry.job.gone]
        if not entries:
            return
        begun, tokens = time.perf_counter(), sum(entry.cost for entry in entries)
        self._attempt(kind, entries)
        if not kind.patient:
            pace = (time.perf_counter() - begun) / max(1, tokens)
            self._pace[type(kind)] = 0.8 * self._pace.get(type(kind), pace) + 0.2 * pace
        self.watch(len(entries), tokens)

    def _attempt(self, kind: Kind, entries: list[Entry]) -> None:
        """Runs a batch; where it raises, its halves, down to the input that is to blame."""
        try:
            answers = kind.run([entry.item for entry in entries], self._between)
            if len(answers) != len(entries):
                raise RuntimeError("a batch gave another number of answers than it had inputs")
        except Exception as error:
            if len(entries) == 1:
                self._fail(entries[0].job, error)
                return
            middle = len(entries) // 2
            for half in (entries[:middle], entries[middle:]):
                rest = [entry for entry in half if not entry.job.gone]
                if rest:
                    self._attempt(kind, rest)
            return
        for entry, answer in zip(entries, answers, strict=True):
            entry.job.results[entry.place] = answer
            entry.job.left -= 1
            if not entry.job.left and not entry.job.gone:
                entry.job.settle()

    def _fail(self, job: Job, error: Exception) -> None:
        self.drop(job)
        job.settle(error)
