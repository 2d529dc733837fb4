"""One request on its way: which model, what is counted, how its work is waited for."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from tianci.data.rows import Row, make_row
from tianci.errors import UserError
from tianci.goals.tasks.base import Example, Task
from tianci.serve.batcher import Batcher, Job, Kind
from tianci.serve.limits import Limits, Receive
from tianci.serve.models import Models, Served
from tianci.serve.refusal import Refusal
from tianci.serve.runs import Runs
from tianci.text.tokenizer import Tokenizer

T = TypeVar("T")
Direction = Literal["Left", "Right", "left", "right"]  # which side of a long text is cut off
SMALL = 16384  # bytes of a body whose tokenization is quicker than a change of threads
WATCHED = 0.05  # seconds after which a request looks whether its client is still there
BOUNDLESS = 1 << 30
WINDOWED = ("tag", "answer")  # these read long inputs in windows, nothing is cut


@dataclass
class Call:
    """What a route's function gets besides the decoded body."""

    models: Models
    batcher: Batcher
    limits: Limits
    receive: Receive
    size: int  # bytes of the body
    tokens: int = 0  # read for this request, for the log
    parameters: dict[str, str] = field(default_factory=dict)  # of the path, the query, the head
    runs: Runs | None = None  # to be shown
    ending: Callable[[], bool] = lambda: False  # whether streams without an end must end

    async def aside(self, function: Callable[[], T]) -> T:
        """Prepares inputs: here when they are small, else in another thread."""
        try:
            if self.size <= SMALL:
                return function()
            return await asyncio.to_thread(function)
        except UserError as error:
            raise Refusal("Tokenizer", str(error)) from error

    def submit(self, kind: Kind, items: Sequence[Any], costs: Sequence[int]) -> Job:
        """Queues work."""
        self.tokens += sum(costs)
        return self.batcher.submit(kind, items, costs)

    async def run(self, kind: Kind, items: Sequence[Any], costs: Sequence[int]) -> list[Any]:
        """The answers, in order; when the client goes, its work is dropped."""
        return await self.wait(self.submit(kind, items, costs))

    async def wait(self, job: Job) -> list[Any]:
        """What a job brings; when the client goes meanwhile, the job is dropped."""
        watching: list[asyncio.Task[None]] = []

        def watch() -> None:
            watching.append(job.loop.create_task(self._watch(job)))

        # most answers are quicker than this, and a task of its own costs more than it saves then
        later = job.loop.call_later(WATCHED, watch)
        try:
            return await job.future
        except UserError as error:
            raise Refusal("Tokenizer", str(error)) from error
        finally:
            if not job.future.done() or job.future.cancelled():
                self.batcher.drop(job)
            later.cancel()
            for task in watching:
                task.cancel()

    async def _watch(self, job: Job) -> None:
        """Waits until the client goes, and drops its job then."""
        while (await self.receive())["type"] != "http.disconnect":
            pass
        self.batcher.drop(job)
        if not job.future.done():
            job.future.set_exception(ConnectionAbortedError())

    # ------------------------------------------------------------ tasks

    async def ask(
        self,
        model: Served,
        records: Sequence[dict[str, Any]],
        truncate: bool | None,
        direction: Direction = "Right",
    ) -> tuple[Task, list[Row], list[Any]]:
        """What a fine-tuned model's head says of records: the task, the rows, one answer each."""
        self.limits.check_inputs(len(records))
        task, cut = model.predictor.task, self.cut(truncate)
        rows, examples = await self.aside(
            lambda: examples_of(model, task, records, cut, self.limits, direction)
        )
        kind, items = model.respond(task, examples)
        said = await self.run(kind, items, [one.length for one in examples])
        return task, rows, await self.aside(lambda: task.join(examples, said))

    async def predictions(
        self, model: Served, records: Sequence[dict[str, Any]], truncate: bool | None = None
    ) -> list[dict[str, Any]]:
        """What `tianci predict` would say of records."""
        task, rows, said = await self.ask(model, records, truncate)
        decision = model.predictor.checkpoint.about.get("decision") or {}
        return task.predict(rows, said, decision)

    def cut(self, truncate: bool | None) -> bool:
        return self.limits.truncate if truncate is None else truncate


def cutting(model: Served, direction: Direction) -> Tokenizer:
    """The model's tokenizer, cutting texts that are too long on that side."""
    tokenizer = model.predictor.tokenizer
    return tokenizer.keeping_ends() if direction.lower() == "left" else tokenizer


def examples_of(
    model: Served,
    task: Task,
    records: Sequence[dict[str, Any]],
    cut: bool,
    limits: Limits,
    direction: Direction = "Right",
) -> tuple[list[Row], list[Example]]:
    """Rows and what the model reads of them; too long ones are refused unless they may be cut."""
    rows: list[Row] = []
    for number, record in enumerate(records, 1):
        row = make_row(record, task.columns(), number)
        if isinstance(row, UserError):
            raise row
        rows.append(row)
    limit, tokenizer = model.predictor.task_limit, cutting(model, direction)

    def read(most: int) -> list[Example]:
        return _alike(task, rows, tokenizer, most)

    if task.name in WINDOWED:
        examples = read(limit)
        sizes = [0] * len(rows)
        for one in examples:
            sizes[one.row] += one.length
        if max(sizes) > limits.input_tokens:
            raise limits.too_long(max(sizes), limits.input_tokens, cuts=False)
        return rows, examples
    if cut:
        return rows, read(limit)
    whole = read(BOUNDLESS)
    longest = max(len(part.ids) for one in whole for part in one.parts)
    if longest > limit:
        raise limits.too_long(longest, limit)
    return rows, whole


def _alike(task: Task, rows: Sequence[Row], tokenizer: Tokenizer, limit: int) -> list[Example]:
    """The examples of rows. Rows with other columns are read for themselves: a task may treat all
    rows as pairs when one of them is, and then the company would change an answer."""
    if len({frozenset(row.values) for row in rows}) == 1:
        return task.examples(rows, tokenizer, limit, labelled=False)
    return [
        dataclasses.replace(one, row=number)
        for number, row in enumerate(rows)
        for one in task.examples([row], tokenizer, limit, labelled=False)
    ]
