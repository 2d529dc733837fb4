"""Steps without a number: skipped and counted, then back to the last good state with half the rate,
then stopped. The counters are part of the state, so a resumed run decides the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch

from tianci.batch import Batch
from tianci.errors import Failed
from tianci.files import write_json
from tianci.text.tokenizer import Tokenizer
from tianci.train.state import State

TOO_MANY = 3  # skipped steps that lead back to the last good state
FORGOTTEN = 3  # good steps in a row after which skipped ones count no more (one bad row per epoch)
RETURNS = 3  # after so many of them the run stops
SLOWER = 0.5  # the rate after a return

KEPT = ("skipped", "returns", "rate", "micro_tokens", "seconds")  # what a return does not undo


class NotANumber(Failed):
    """Skipping and going back did not help; `batch` is the last one that gave no number."""

    def __init__(self, step: int, batch: Batch, loss: float, gradient: float):
        super().__init__(
            f"step {step}: the loss is not a number, {TOO_MANY} times nearly in a row, and again "
            f"after {RETURNS} returns with a lower rate"
        )
        self.step, self.batch, self.loss, self.gradient = step, batch, loss, gradient


def count_good(state: State) -> None:
    """A step that could be taken."""
    state.calm += 1
    if state.calm >= FORGOTTEN:
        state.bad = 0


def count_bad(state: State) -> Literal["skip", "return", "stop"]:
    """A step that was skipped; what is to be done about it."""
    state.skipped += 1
    state.bad += 1
    state.calm = 0
    if state.bad < TOO_MANY:
        return "skip"
    return "return" if state.returns < RETURNS else "stop"


def put_back(state: State, earlier: State) -> None:
    """Makes a state the earlier one, with half the rate; what was counted stays counted."""
    state.returns += 1
    state.rate *= SLOWER
    kept = {name: getattr(state, name) for name in KEPT}
    vars(state).update({**vars(earlier), **kept, "bad": 0, "calm": 0})


def write_batch(path: Path, fault: NotANumber, tokenizer: Tokenizer | None) -> None:
    """The batch for a person to look at: ids, text and answers of every sequence."""
    batch = fault.batch
    rows = torch.split(batch.tokens.cpu(), list(batch.layout.lengths))
    ids = [row.tolist() for row in rows]
    record: dict[str, Any] = {
        "step": fault.step,
        "loss": str(fault.loss),  # JSON has no such number
        "gradient": str(fault.gradient),
        "sequences": [
            {"ids": row, "text": tokenizer.decode(row) if tokenizer else None} for row in ids
        ],
        "targets": {name: _listed(value) for name, value in (batch.targets or {}).items()},
    }
    write_json(path, record)


def _listed(value: Any) -> Any:
    """Answers as JSON; numbers that JSON does not know as text."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_listed(part) for part in value]
    finite = not isinstance(value, float) or value - value == 0
    return value if finite and isinstance(value, int | float | str | None) else str(value)
