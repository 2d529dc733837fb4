"""What a log says in a few numbers, kept up to date by reading only what is new."""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path
from typing import Any, NamedTuple

from tianci.goals.language import language_of
from tianci.serve.run_log import START, Cursor, read_after
from tianci.train.history import number, table

STEP = b'{"event": "step"'  # as the journal writes it; such lines need no reading but the last


class Best(NamedTuple):
    """The best score on held-out text or dev rows so far."""

    name: str
    value: float
    step: int
    higher: bool  # whether more is better


class Digest:
    """The state of one log."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cursor: Cursor = START
        self._forget()

    def _forget(self) -> None:
        self.steps, self.loss, self.ended = 0, math.nan, False
        self.metric = ""  # that dev rows choose by
        self._held_out: Best | None = None
        self._dev: dict[str, Best] = {}
        self.begun: dict[str, Any] = {}  # the start entry

    def update(self, path: Path) -> None:
        """Reads on; a log that cannot be read says nothing new."""
        with self._lock:
            more = True
            while more:
                try:
                    part = read_after(path, self._cursor)
                except OSError:
                    return
                if part.reset:
                    self._forget()
                last = None
                for line, _ in part.lines:
                    if line.startswith(STEP):
                        last = line
                    else:
                        self._take(line)
                if last is not None:
                    self._take(last)
                self._cursor, more = part.cursor, part.more

    def _take(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(entry, dict):
            return
        step, event = number(entry.get("step")), entry.get("event")
        at = int(step) if step == step and abs(step) < 1e15 else 0
        self.steps = max(self.steps, at)
        if event in ("start", "resume"):
            self.ended = False
            self.begun = {**entry, **self.begun}
            self.metric = str(entry.get("metric") or self.metric)
        elif event == "step":
            self.loss = number(entry.get("loss"))
        elif event in ("held", "end") and entry.get("held"):
            self._take_held(table(entry.get("held")), at)
        elif event == "dev":
            self._take_dev(table(entry.get("scores")), at)
        if event == "end":
            self.ended = True

    def best(self, metric: str = "") -> Best | None:
        """The best so far; `metric` for logs that do not name theirs."""
        names = [n for n in (self.metric, metric, *self._dev) if n in self._dev]
        return self._dev[names[0]] if names else self._held_out

    def _take_held(self, held: dict[str, Any], at: int) -> None:
        goal = language_of(held) or next(iter(held), None)
        value = number(table(held.get(str(goal))).get("loss"))
        if value == value and (self._held_out is None or value < self._held_out.value):
            self._held_out = Best(f"{goal} loss", value, at, False)

    def _take_dev(self, scores: dict[str, Any], at: int) -> None:
        for name, given in scores.items():
            value, old = number(given), self._dev.get(name)
            if value == value and (old is None or value > old.value):
                self._dev[name] = Best(name, value, at, True)
