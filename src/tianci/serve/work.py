"""Kinds of work: what may share a batch, and how a batch of it is answered.

Two kinds are equal when they have the same model, head and options. Items are prepared before they
wait (tokenized, cut, counted), so that the inference thread does little besides the forward pass.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from tianci.batch import Batch
from tianci.checkpoint import OWN
from tianci.evaluate.tasks import answer_examples
from tianci.goals.tasks.base import Task
from tianci.nn.task_heads import PlannedHead
from tianci.nn.watching import Watching
from tianci.serve.predictor import Predictor
from tianci.serve.writing import Asked, Writing, write

Floats = NDArray[np.float32]
Step = Callable[[], None]


@dataclass(frozen=True)
class Work:
    """Done by one loaded model (compared by identity)."""

    model: Predictor

    @property
    def patient(self) -> bool:
        return False

    @property
    def shares(self) -> bool:
        # patient work changes its model for a moment (hooks, the order of weights in memory)
        return not self.patient


@dataclass(frozen=True)
class Embed(Work):
    """Lists of ids to vectors, by the directory's own pooling or else the mean, as
    Predictor.embed."""

    normalize: bool | None = None

    def run(self, items: Sequence[list[int]], step: Step) -> list[Floats]:
        trained = trained_head(self.model)
        usual = self.model.defaults.get("normalize", trained is not None)
        unit = usual if self.normalize is None else self.normalize
        kind = self.model.defaults.get("pooling", "mean")

        def answer(states: Any, batch: Batch) -> Iterator[Floats]:
            if trained is not None:
                vectors = trained(states.layers, states.layout).float()
            else:
                vectors = states.pooled(kind).float()
            yield from (F.normalize(vectors, dim=-1) if unit else vectors).cpu().numpy()

        return self.model.run(items, answer)


@dataclass(frozen=True)
class EmbedAll(Work):
    """Lists of ids to one vector per token."""

    def run(self, items: Sequence[list[int]], step: Step) -> list[Floats]:
        def answer(states: Any, batch: Batch) -> Iterator[Floats]:
            parts: Sequence[Tensor] = states.last.float().cpu().split(list(batch.layout.lengths))
            yield from (part.numpy() for part in parts)

        return self.model.run(items, answer)


@dataclass(frozen=True)
class Respond(Work):
    """Examples of a fine-tuned model's task to what its head says."""

    task: Task

    def run(self, items: Sequence[Any], step: Step) -> list[Any]:
        return answer_examples(self.model.checkpoint, self.task, items, self.model.device)


@dataclass(frozen=True)
class Fill(Work):
    """Texts to candidates for their masks."""

    top: int = 5

    def run(self, items: Sequence[str], step: Step) -> list[Any]:
        return self.model.fill(list(items), self.top)


@dataclass(frozen=True)
class Score(Work):
    """Texts to log-likelihoods."""

    whole_words: bool = False

    def run(self, items: Sequence[str], step: Step) -> list[Any]:
        return self.model.score(list(items), self.whole_words)


@dataclass(frozen=True)
class Write(Work):
    """Texts to continuations or targets, token by token; other work runs between the tokens."""

    how: Writing

    @property
    def patient(self) -> bool:
        return True

    def run(self, items: Sequence[Asked], step: Step) -> list[Any]:
        return write(self.model, items, self.how, step)


def trained_head(model: Predictor) -> PlannedHead | None:
    """The head that was trained to give vectors: one without outputs."""
    own = model.heads.get(OWN)
    return own if isinstance(own, PlannedHead) and not own.plan.outputs else None


def warm(model: Predictor) -> None:
    """Runs one small batch, so that the first request does not wait for what is made then."""
    with contextlib.suppress(Exception):  # whatever it is, a request will be told
        Embed(model).run([[0]], lambda: None)


def can_watch(model: Predictor) -> bool:
    """Whether every layer tells its attention weights: asked of one token."""
    batch = Batch.of([[0]], [[0]]).to(model.device)
    watching = Watching(batch.layout)
    try:
        with torch.inference_mode():
            model.model(dataclasses.replace(batch, layout=watching))
    except Exception:  # a family that knows no attention, or no such layout: no picture of it
        return False
    return 0 < len(watching.weights) == int(getattr(model.model.config, "layers", 0))


def embed_limit(model: Predictor) -> int:
    """How many tokens of a text its vector is made of."""
    trained = trained_head(model) is not None
    limit = model.defaults.get("limit") or (model.task_limit if trained else model.limit)
    return min(model.limit, int(limit))
