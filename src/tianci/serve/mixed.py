"""Adapters of one base in one batch: the base's matrices meet all tokens at once, and where the
adapters differ (bottlenecks, norms, biases) each one meets the tokens of its own sequences.

Shapes: T tokens, those of one adapter side by side.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from tianci.batch import Batch, Layout
from tianci.goals.tasks.base import Example, Task
from tianci.models.base import Model, States
from tianci.nn.adapter import MARK
from tianci.nn.residual import Residual
from tianci.serve.predictor import Predictor

CLOSE = 1e-4  # of the probe; a body that was put together wrongly is off by far more


class Ranges(threading.local):
    """Which tokens of the batch at hand belong to whom: (member, from, to). Each thread has its
    own batch at hand."""

    def __init__(self) -> None:
        self.now: list[tuple[int, int, int]] = []


class Routed(nn.Module):
    """One module per member, each applied to its own tokens."""

    def __init__(self, parts: Sequence[nn.Module], ranges: Ranges):
        super().__init__()
        self.parts, self.ranges = nn.ModuleList(parts), ranges

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.parts[n](x[start:end]) for n, start, end in self.ranges.now])


@dataclass(frozen=True, eq=False)
class Pool:
    """Models that differ by adapters only, and one body for all of them."""

    members: tuple[Predictor, ...]
    body: Model
    ranges: Ranges

    @property
    def patient(self) -> bool:
        return False

    @property
    def shares(self) -> bool:
        return True

    def run(self, items: Sequence[tuple[int, Example]], step: Callable[[], None]) -> list[Any]:
        """What each item's own head says."""
        order = sorted(range(len(items)), key=lambda n: items[n][0])
        found: list[Any] = [None] * len(items)
        parts: list[tuple[Predictor, list[int], Batch]] = []
        self.ranges.now, start = [], 0
        for member, numbers in groupby(order, key=lambda n: items[n][0]):
            mine, model = list(numbers), self.members[member]
            batch = model.task.collate([items[n][1] for n in mine]).to(model.device)
            parts.append((model, mine, batch))
            self.ranges.now.append((member, start, start + batch.layout.tokens))
            start += batch.layout.tokens
        with torch.inference_mode():
            layers = self.body(_joined([batch for _, _, batch in parts])).layers
            for (model, mine, batch), (_, begin, end) in zip(parts, self.ranges.now, strict=True):
                states = States([layer[begin:end] for layer in layers], batch.layout)
                said = model.task.answers(model.heads, states, batch)
                for n, one in zip(mine, said, strict=True):
                    found[n] = one
        return found


def _joined(batches: Sequence[Batch]) -> Batch:
    lengths = [length for batch in batches for length in batch.layout.lengths]
    segments = [batch.segments for batch in batches if batch.segments is not None]
    return Batch(
        torch.cat([batch.tokens for batch in batches]),
        Layout(lengths, batches[0].layout.device),
        torch.cat(segments) if len(segments) == len(batches) else None,
    )


def make_pool(members: Sequence[Predictor]) -> Pool | None:
    """One body for models whose parameters are shared except those of adapters; None where they
    cannot be mixed (other numbers of layers, tasks that write, parts that we cannot route)."""
    models = [one.model for one in members]
    if len(models) < 2 or len({one.config.layers for one in models}) > 1:
        return None
    if any(type(one.task).respond is not Task.respond for one in members):
        return None
    tensors = {id(t): t for model in models for t in (*model.parameters(), *model.buffers())}
    body, ranges = copy.deepcopy(models[0], tensors), Ranges()
    for path, part in models[0].named_modules():
        parts = [model.get_submodule(path) for model in models] if MARK not in path + "." else []
        if isinstance(part, Residual):
            own = [one.adapter or nn.Identity() for one in parts if isinstance(one, Residual)]
            residual = body.get_submodule(path)
            assert isinstance(residual, Residual)
            residual.adapter = Routed(own, ranges)
        elif parts and _differ(parts):
            if not isinstance(part, nn.Linear | nn.LayerNorm):
                return None
            above, _, name = path.rpartition(".")
            setattr(body.get_submodule(above), name, Routed(parts, ranges))
    pool = Pool(tuple(members), body.eval(), ranges)
    return pool if _right(pool) else None


def _differ(parts: Sequence[nn.Module]) -> bool:
    """Whether these modules have parameters of their own that are not the same tensors."""
    kept = [tuple(id(p) for p in one.parameters(recurse=False)) for one in parts]
    return len(set(kept)) > 1


def _right(pool: Pool) -> bool:
    """Whether the body says what the members say, on a few tokens."""
    batch = Batch.of([[3, 4, 5], [5]], [[0, 0, 0], [0]]).to(pool.members[0].device)
    members = range(len(pool.members))
    pool.ranges.now = [(n, 4 * n, 4 * n + 4) for n in members]
    try:
        with torch.inference_mode():
            mixed = pool.body(_joined([batch for _ in members])).last
            each = torch.cat([one.model(batch).last for one in pool.members])
    except (AttributeError, RuntimeError):  # a part that does not call its modules
        return False
    return bool((mixed - each).abs().max() <= CLOSE * max(1.0, float(each.abs().max())))
