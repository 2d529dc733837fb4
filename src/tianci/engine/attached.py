"""An engine beside a model: takes the batches that it can run, leaves the others to the modules."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Protocol, overload

import numpy as np
import torch
from torch import Tensor

from tianci.batch import Batch, Layout
from tianci.engine.cut import cut
from tianci.models.base import Encoder, States
from tianci.nn.embedding import check_length


class Runner(Protocol):
    """What differs between engines."""

    most: int  # tokens that are run together
    slack: float  # how much longer than the shortest the longest of them may be

    def last(self, batch: Batch) -> Tensor:
        """(T, W), or (A, W) of the tokens that are asked for."""


class Engine:
    """A runner for one model. Answers do not depend on what else is in the batch."""

    def __init__(self, model: Encoder, make: Callable[[], Runner], name: str, int8: bool = False):
        self.model, self.make, self.name, self.int8 = model, make, name, int8
        self.kept: dict[str, Any] | None = None  # what int8 keeps, as measured
        # listed once: to walk through the modules takes as long as a tenth of a short text. Weights
        # made in inference mode do not count their changes.
        self._weights = [p for p in model.parameters() if not p.is_inference()]
        self.made_at = self._state()
        self._making = Lock()
        self._runner: Runner | None = None

    @property
    def runner(self) -> Runner:
        """Made when the first batch comes, once, whichever thread brings it."""
        if self._runner is None:
            with self._making, torch.inference_mode(False), torch.no_grad():
                self._runner = self._runner or self.make()
        return self._runner

    def __deepcopy__(self, known: Any) -> None:
        """A copied model has weights of its own, so it has no engine."""

    def _state(self) -> int:
        """Changes whenever weights are changed in place: an engine has copies of them."""
        return sum(weight._version for weight in self._weights)

    def takes(self, batch: Batch) -> bool:
        """Whether this is plain inference: no gradients, nobody who looks in or changes something
        on the way (a layout that records or watches, a hook)."""
        layout = batch.layout
        return (
            type(layout) is Layout
            and layout.prefix is None
            and layout.tokens > 0
            and batch.tokens.device.type == "cpu"
            and not torch.is_grad_enabled()
            and not self.model.training
            and not any(part._forward_hooks for part in self.model.depth())
            and self._state() == self.made_at
        )

    def states(self, batch: Batch) -> States:
        """The last layer from the engine; the others, if somebody reads them, from the modules."""
        check_length(batch, self.model.embedding.position.num_embeddings)
        return States(_Layers(self, batch), batch.layout)

    @torch.no_grad()
    def last(self, batch: Batch) -> Tensor:
        """(T, W); not a number where it was not asked for."""
        layout = batch.layout
        groups = cut(layout.lengths, self.runner.most, self.runner.slack)
        if len(groups) == 1 and groups[0] == list(range(len(layout))):
            last = self.runner.last(batch)
            if batch.asked is None:
                return last
            return _spread([(last, batch.asked)], layout.tokens)
        found = []
        for numbers in groups:
            place, piece = _piece(batch, numbers)
            last = self.runner.last(piece)
            found.append((last, place if piece.asked is None else place[piece.asked]))
        return _spread(found, layout.tokens)


def _spread(found: Sequence[tuple[Tensor, Tensor]], count: int) -> Tensor:
    """Rows at their places; not a number elsewhere: who reads what was not asked for notices.

    By numpy, in one thread: those of torch spin for a while behind what they do together, and take
    that time from the threads of another engine.
    """
    whole = np.empty((count, found[0][0].shape[1]), np.float32)
    if sum(len(places) for _, places in found) < count:
        whole.fill(np.nan)
    for rows, places in found:
        whole[places.numpy()] = rows.numpy()
    return torch.from_numpy(whole)


def _piece(batch: Batch, numbers: Sequence[int]) -> tuple[Tensor, Batch]:
    """Some sequences of a batch, and where their tokens are in it."""
    layout = batch.layout
    starts = layout.starts.tolist()
    place = torch.cat([torch.arange(starts[n], starts[n + 1]) for n in numbers])
    asked = None
    if batch.asked is not None:
        wanted = torch.zeros(layout.tokens, dtype=torch.bool)
        wanted[batch.asked] = True
        asked = wanted[place].nonzero().squeeze(1)
    return place, dataclasses.replace(
        batch,
        tokens=batch.tokens[place],
        layout=layout.only(numbers),
        segments=None if batch.segments is None else batch.segments[place],
        asked=asked,
    )


class _Layers(Sequence[Tensor]):
    """All layers of a batch, made when they are read."""

    def __init__(self, engine: Engine, batch: Batch):
        self.engine, self.batch = engine, batch
        self.depth = len(engine.model.stack.order()) + 1
        self._last: Tensor | None = None
        self._all: Sequence[Tensor] | None = None

    def __len__(self) -> int:
        return self.depth

    @overload
    def __getitem__(self, number: int) -> Tensor: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Tensor]: ...
    def __getitem__(self, number: int | slice) -> Tensor | Sequence[Tensor]:
        if isinstance(number, int) and number in (-1, self.depth - 1):
            if self._last is None:
                self._last = self.engine.last(self.batch)
            return self._last
        if self._all is None:
            self._all = self.engine.model.run_modules(self.batch).layers
        return self._all[number]
