"""Routes on training runs: the list, one run, its log in parts and as a stream, its report."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tianci.serve.call import Call
from tianci.serve.refusal import Refusal
from tianci.serve.run_digest import STEP
from tianci.serve.run_log import START, Cursor, Part, clean, parse_cursor, plain, read_after
from tianci.serve.run_report import Report, report_of
from tianci.serve.run_summary import sum_up
from tianci.serve.runs import LOG, RECORD, SCORES, Run, Runs
from tianci.train.history import table

POLL = 0.5  # seconds between looks at a log that is being streamed
BEAT = 15.0  # seconds without news after which a stream says that it is alive
STREAMS = 64  # open at once
EVENTS = 2000  # of a run that are told besides its log


class BestScore(Struct):
    name: str
    value: float
    step: int
    higher: bool


class RunSummary(Struct):
    """A run in the list; times in seconds since 1970."""

    id: str
    name: str
    kind: str
    state: str
    started: float | None
    changed: float
    steps: int
    loss: float | None
    best: BestScore | None
    task: str | None
    parent: str | None
    log: bool
    report: bool


class RunList(Struct):
    runs: list[RunSummary]
    more: bool


class RunDetails(Struct):
    run: RunSummary
    settings: dict[str, Any]
    events: list[msgspec.Raw]
    scores: dict[str, Any]
    trials: list[str]


class RunLog(Struct):
    entries: list[msgspec.Raw]
    cursor: str
    reset: bool
    more: bool


async def runs(asked: None, call: Call) -> RunList:
    """The training runs below the directory of --runs, newest first: kind (pretrain, finetune, or
    trial of a finetune), state (running, finished, stopped), steps, loss, best score."""
    shown = _runs(call)

    def read() -> RunList:
        found, now = shown.found(), time.time()
        return RunList([_summary(shown, run, now) for run in found.runs], found.more)

    return await shown.aside(read)


async def run(asked: None, call: Call) -> RunDetails:
    """One run: its settings, what happened besides steps, its scores."""
    shown = _runs(call)

    def read() -> RunDetails:
        found = shown.find(call.parameters["id"])
        trials = [one.id for one in shown.found().runs if one.parent and one.parent.id == found.id]
        scores = table(shown.read(found, SCORES))
        parts = {k: table(table(scores.get(k)).get("scores")) for k in ("dev", "test")}
        return RunDetails(
            _summary(shown, found, time.time()),
            _settings(shown, found),
            _happened(found.folder / LOG),
            plain({k: v for k, v in parts.items() if v}),
            trials,
        )

    return await shown.aside(read)


async def run_log(asked: None, call: Call) -> RunLog:
    """The entries of a run's log behind `after` (the `cursor` of an earlier answer; without it from
    the start), about a megabyte at a time. `reset`: the log was cut back by a resume, so these
    entries replace all earlier ones."""
    shown, cursor = _runs(call), _given(call.parameters.get("after", ""))

    def read() -> RunLog:
        part = _part(_log(shown, call), cursor)
        kept = [msgspec.Raw(entry) for line, _ in part.lines if (entry := clean(line))]
        return RunLog(kept, str(part.cursor), part.reset, part.more)

    return await shown.aside(read)


async def run_stream(asked: None, call: Call) -> AsyncIterator[bytes]:
    """The entries of a run's log as server-sent events, as they are written. Each has an id; with
    `Last-Event-ID` (or `after`) the stream goes on behind it. The event `reset` says that the log
    was cut back by a resume, and that all entries follow anew."""
    shown = _runs(call)
    path = await shown.aside(lambda: _log(shown, call))
    if shown.streams >= STREAMS:
        raise Refusal("Overloaded", "too many streams are open", {"Retry-After": "5"})
    asked_for = call.parameters.get("last-event-id") or call.parameters.get("after", "")
    return _stream(call, shown, path, _given(asked_for))


async def run_report(asked: None, call: Call) -> Report:
    """The report of a finished fine-tuning run: tables, and what every threshold would give."""
    shown = _runs(call)

    def read() -> Report:
        found = shown.find(call.parameters["id"])
        record = shown.read(found, SCORES)
        if not record:
            raise Refusal("NotFound", "this run has no report (no scores.json)")
        return report_of(found.name, record)

    return await shown.aside(read)


# ---------------------------------------------------------------- parts


def _runs(call: Call) -> Runs:
    if call.runs is None:
        raise Refusal("NotFound", "this server shows no runs; see --runs")
    return call.runs


def _given(text: str) -> Cursor:
    cursor = parse_cursor(text) if text else START
    if cursor is None:
        raise Refusal("Invalid", "this is no cursor of a log; leave it out to read from the start")
    return cursor


def _log(shown: Runs, call: Call) -> Path:
    found = shown.find(call.parameters["id"])
    if LOG not in found.files:
        raise Refusal("NotFound", "this run has no log of its own; its trials have")
    return found.folder / LOG


def _part(path: Path, cursor: Cursor) -> Part:
    try:
        return read_after(path, cursor)
    except OSError as error:
        raise Refusal("NotFound", "the log of this run cannot be read any more") from error


async def _stream(call: Call, shown: Runs, path: Path, cursor: Cursor) -> AsyncIterator[bytes]:
    shown.streams += 1
    told = time.monotonic()
    try:
        yield b"retry: 1000\n\n"
        while not call.ending():
            try:
                part = await shown.aside(lambda: read_after(path, cursor))  # noqa: B023  (awaited)
            except OSError:
                return  # the run is gone; whoever asks again is told so
            if news := await shown.aside(lambda: _events(part)):  # noqa: B023
                yield news
                told = time.monotonic()
            elif time.monotonic() - told > BEAT:
                yield b": still here\n\n"
                told = time.monotonic()
            cursor = part.cursor
            if not part.more:
                await asyncio.sleep(POLL)
    finally:
        shown.streams -= 1


def _events(part: Part) -> bytes:
    told = [b"event: reset\nid: %s\ndata: {}\n\n" % str(START).encode()] if part.reset else []
    told += [
        b"id: %s\ndata: %s\n\n" % (str(cursor).encode(), entry)
        for line, cursor in part.lines
        if (entry := clean(line))
    ]
    return b"".join(told)


def _summary(shown: Runs, one: Run, now: float) -> RunSummary:
    found, kind = sum_up(shown, one, now), shown.kind(one)
    task = shown.read(one.parent or one, RECORD).get("task")
    return RunSummary(
        id=one.id,
        name=one.name,
        kind=kind,
        state=found.state,
        started=found.started,
        changed=found.changed,
        steps=found.steps,
        loss=found.loss if math.isfinite(found.loss) else None,
        best=None if found.best is None else BestScore(*plain(found.best)),
        task=None if task is None else plain(str(task)),
        parent=one.parent.id if one.parent else None,
        log=LOG in one.files,
        report=SCORES in one.files,
    )


def _settings(shown: Runs, one: Run) -> dict[str, Any]:
    """Names with dots to values: what was asked for, then what the log says was taken."""
    record = shown.read(one.parent or one, RECORD)
    found: dict[str, Any] = {"seed": record.get("seed")} if record else {}
    for section, value in table(record.get("settings")).items():
        if isinstance(value, dict):
            found |= {f"{section}.{name}": inner for name, inner in value.items()}
        else:
            found[str(section)] = value
    if LOG in one.files:
        begun = shown.digest(one).begun
        names = ("lr", "warmup", "seed", "rows", "parameters", "learned", "precision")
        found |= {f"taken.{name}": begun[name] for name in names if name in begun}
    return dict(plain(found))


def _happened(path: Path) -> list[msgspec.Raw]:
    """The entries of a log that are no steps, the last ones."""
    found: list[bytes] = []
    cursor, more = START, True
    while more:
        try:
            part = read_after(path, cursor)
        except OSError:
            break
        found += [line for line, _ in part.lines if not line.startswith(STEP)]
        found = found[-EVENTS:]
        cursor, more = part.cursor, part.more
    return [msgspec.Raw(entry) for line in found if (entry := clean(line))]
