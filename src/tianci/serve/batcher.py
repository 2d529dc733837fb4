"""Requests that wait together run together: lanes (threads) pack waiting inputs by kind of work.

Nothing waits on purpose: while batches run, the next ones gather. One input that comes while
nothing runs has the machine for itself; several are shared out to the lanes, and so is one that had
to wait: where one waited, more will come. An input that raises is found by halving its batch, so it
fails alone. Work whose client has gone is not begun.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Any, NamedTuple, Protocol

from tianci.serve.lanes import Lane
from tianci.serve.refusal import Refusal

# tokens of a batch beside others: larger ones are hardly faster on a processor, and each answer
# waits for its whole batch
SIDE = 512


class Kind(Hashable, Protocol):
    """Inputs of equal kinds may share a batch; the answers must not depend on it."""

    @property
    def patient(self) -> bool:
        """Whether it takes long and lets other work in between its steps."""

    @property
    def shares(self) -> bool:
        """Whether batches may run beside it, each with its share of the threads."""

    def run(self, items: Sequence[Any], step: Callable[[], None]) -> list[Any]:
        """One answer per item; patient work calls `step` now and then."""


class Job:
    """The inputs of one request and what becomes of them."""

    def __init__(self, size: int, loop: asyncio.AbstractEventLoop):
        self.results: list[Any] = [None] * size
        self.left = size
        self.gone = False  # dropped by its client, or failed
        self.future: asyncio.Future[list[Any]] = loop.create_future()
        self.loop = loop

    def settle(self, error: BaseException | None = None) -> None:
        """Wakes the request, from any thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.wake, error)

    def wake(self, error: BaseException | None = None) -> None:
        """The same, in the thread of the loop."""
        if self.future.done():
            return
        if error is None:
            self.future.set_result(self.results)
        else:
            self.future.set_exception(error)


def settle_all(jobs: Sequence[Job]) -> None:
    """Wakes requests that are done: the loop once, not once for each."""
    if not jobs or jobs[0].loop.is_closed():
        return

    def wake() -> None:
        for job in jobs:
            job.wake()

    jobs[0].loop.call_soon_threadsafe(wake)


class Entry(NamedTuple):
    """One input in the queue."""

    job: Job
    place: int
    item: Any
    cost: int  # tokens
    ticket: int
    seconds: float  # that it will probably take; 0 for patient work, which lets others in


class Batcher:
    """The queue and the lanes that work it off."""

    def __init__(
        self,
        batch_tokens: int,
        queue_tokens: int,
        watch: Callable[[int, int], object] = lambda inputs, tokens: None,
        queue_seconds: float = math.inf,
        lanes: int = 1,
        threads: int = 1,
        use: Callable[[int], object] = lambda threads: None,
    ):
        self.batch_tokens, self.queue_tokens, self.watch = batch_tokens, queue_tokens, watch
        self.queue_seconds, self.threads = queue_seconds, threads
        self.waiting = 0  # tokens in the queue
        self.inputs = 0  # inputs in the queue
        self.ahead = 0.0  # seconds that the queue will probably take
        self._pace: dict[type, float] = {}  # seconds per token, lately, by class of work
        self._queues: dict[Kind, deque[Entry]] = {}
        self._ticket = 0
        self._lock = threading.Lock()
        self._stopped = False
        self._alone = False  # whether what runs has the machine for itself
        self._lanes = [Lane(number, use) for number in range(lanes)]

    @property
    def full(self) -> bool:
        """Whether there is no room for a usual request; a small one may still be taken."""
        room = min(self.batch_tokens, self.queue_tokens // 8)
        return self.waiting + room > self.queue_tokens or self.ahead > self.queue_seconds

    def first(self, function: Callable[[], None]) -> Future[None]:
        """Has something done by the first lane before any batch: loading the models."""
        done: Future[None] = Future()

        def task() -> None:
            self._lanes[0].use(self.threads)
            try:
                function()
                done.set_result(None)
            except BaseException as error:
                done.set_exception(error)
            with self._lock:
                self._lanes[0].busy = self._alone = False
                self._assign()

        with self._lock:
            self._lanes[0].busy = self._alone = True
            self._lanes[0].give(task)
        return done

    def submit(self, kind: Kind, items: Sequence[Any], costs: Sequence[int]) -> Job:
        """Queues the inputs of a request, called from the event loop; 429 where there is no room.

        A request that is larger than the whole queue is taken when nothing else waits.
        """
        job, total = Job(len(items), asyncio.get_running_loop()), sum(costs)
        with self._lock:
            late = not kind.patient and self.ahead > self.queue_seconds
            if self.waiting and (late or self.waiting + total > self.queue_tokens):
                raise self.overloaded()
            pace = 0.0 if kind.patient else self._pace.get(type(kind), 0.0)
            if items:
                queue = self._queues.setdefault(kind, deque())
            for place, (item, cost) in enumerate(zip(items, costs, strict=True)):
                self._ticket += 1
                queue.append(Entry(job, place, item, cost, self._ticket, cost * pace))
            if items:
                self._count(islice(queue, len(queue) - len(items), None), 1)
            self._assign(fresh=True)
        if not items:
            job.wake()
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
        with self._lock:
            self._drop(job)
            self._assign()  # what was behind it may suit the lanes that are free

    def stop(self) -> None:
        """Ends the lanes behind the batches they work on."""
        with self._lock:
            self._stopped = True
            for lane in self._lanes:
                lane.stop()
        for lane in self._lanes:
            lane.join(30)

    # ------------------------------------------------------------ who does what; under the lock

    def _assign(self, fresh: bool = False) -> None:
        """Gives waiting batches to free lanes; fresh: one has just come, and none had to wait."""
        while self._queues and not self._alone and not self._stopped:
            free = [lane for lane in self._lanes if not lane.busy]
            if not free:
                return
            kind = self._oldest(self._queues)
            idle = len(free) == len(self._lanes)
            alone = len(self._lanes) == 1 or not kind.shares
            if alone and not idle:
                return  # it waits for all of them, and what is younger waits behind it
            self._alone = alone or (idle and fresh and self.inputs == 1)
            budget = self.batch_tokens
            if not self._alone:
                tokens = sum(entry.cost for entry in self._queues[kind])
                budget = min(budget, SIDE, -(-tokens // len(free)))
            self._give(free[0], kind, self._take(kind, budget))

    def _give(self, lane: Lane, kind: Kind, entries: list[Entry]) -> None:
        lane.busy = True
        share = 1 if self._alone else len(self._lanes)

        def task() -> None:
            lane.use(max(1, self.threads // share))
            done = self._batch(kind, entries, share)
            with self._lock:
                lane.busy = self._alone = False
                self._assign()
            settle_all(done)

        lane.give(task)

    def _oldest(self, kinds: Iterable[Kind]) -> Kind:
        """The kind whose first input has waited longest."""
        return min(kinds, key=lambda one: self._queues[one][0].ticket)

    def _take(self, kind: Kind, budget: int) -> list[Entry]:
        """As many inputs of a kind as fit."""
        queue, used = self._queues[kind], 0
        taken: list[Entry] = []
        while queue and (not taken or used + queue[0].cost <= budget):
            taken.append(queue.popleft())
            used += taken[-1].cost
        if not queue:
            del self._queues[kind]
        self._count(taken, -1)
        return taken

    def _count(self, entries: Iterable[Entry], sign: int) -> None:
        """Adds what came to the sums, or takes off what went."""
        for entry in entries:
            self.inputs += sign
            self.waiting += sign * entry.cost
            self.ahead += sign * entry.seconds
        if not self.inputs:
            self.ahead = 0.0  # sums of fractions do not come back to 0 by themselves

    def _drop(self, job: Job) -> None:
        job.gone = True
        for kind, queue in list(self._queues.items()):
            self._count([entry for entry in queue if entry.job is job], -1)
            kept = deque(entry for entry in queue if entry.job is not job)
            if kept:
                self._queues[kind] = kept
            else:
                del self._queues[kind]

    # ------------------------------------------------------------ in a lane

    def _between(self) -> None:
        """Runs one waiting batch that is quick, while patient work pauses."""
        with self._lock:
            quick = [kind for kind in self._queues if not kind.patient]
            if not quick:
                return
            kind = self._oldest(quick)
            entries = self._take(kind, self.batch_tokens)
        settle_all(self._batch(kind, entries, 1))

    def _batch(self, kind: Kind, entries: list[Entry], share: int) -> list[Job]:
        """Runs a batch beside `share - 1` others; the jobs that are done with it."""
        entries = [entry for entry in entries if not entry.job.gone]
        if not entries:
            return []
        begun, tokens = time.perf_counter(), sum(entry.cost for entry in entries)
        done = self._attempt(kind, entries)
        if not kind.patient:
            pace = (time.perf_counter() - begun) / max(1, tokens) / share
            with self._lock:
                self._pace[type(kind)] = 0.8 * self._pace.get(type(kind), pace) + 0.2 * pace
        self.watch(len(entries), tokens)
        return done

    def _attempt(self, kind: Kind, entries: list[Entry]) -> list[Job]:
        """Runs a batch; where it raises, its halves, down to the input that is to blame."""
        try:
            answers = kind.run([entry.item for entry in entries], self._between)
            if len(answers) != len(entries):
                raise RuntimeError("a batch gave another number of answers than it had inputs")
        except Exception as error:
            if len(entries) == 1:
                with self._lock:
                    self._drop(entries[0].job)
                entries[0].job.settle(error)
                return []
            middle = len(entries) // 2
            done: list[Job] = []
            for half in (entries[:middle], entries[middle:]):
                rest = [entry for entry in half if not entry.job.gone]
                done += self._attempt(kind, rest) if rest else []
            return done
        done = []
        with self._lock:  # another lane may have the rest of a job
            for entry, answer in zip(entries, answers, strict=True):
                entry.job.results[entry.place] = answer
                entry.job.left -= 1
                if not entry.job.left and not entry.job.gone:
                    done.append(entry.job)
        return done
