"""What all downstream tasks share. A task is one file: its fields, its features, its loss, its
answers.

Rows come from files. A row becomes one or more *examples*; an example is one or more *parts*, each
a sequence that the model reads (one choice of several, one text of a pair to compare). The parts of
a batch are sorted by length, because attention likes runs of equal length; `targets["place"]` says
where each part went.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tianci.batch import Batch
from tianci.checkpoint import OWN, Checkpoint
from tianci.data.rows import Field, Row
from tianci.errors import UserError
from tianci.goals.base import Goal, Heads, asking
from tianci.metrics.score import Score, value
from tianci.models.base import Model, States
from tianci.text.tokenizer import Tokenizer

Decision = dict[str, Any]  # what dev data decided: threshold, temperature, ...


class Part(NamedTuple):
    """One sequence."""

    ids: list[int]
    segments: list[int]


@dataclass(frozen=True)
class Example:
    """What is learned or answered together; `row` is the number of the row it came from."""

    row: int
    parts: tuple[Part, ...]
    target: Any = None  # the right answer, in the task's own form; None when it is to be predicted
    info: Any = None  # what the task needs later to turn outputs into an answer: offsets, ...

    @property
    def length(self) -> int:
        return sum(len(part.ids) for part in self.parts)


@dataclass(frozen=True)
class Task(Goal):
    """A goal with rows, labels and answers."""

    fields: ClassVar[tuple[Field, ...]]
    head_kind: ClassVar[str]  # the family's standard head: sequence, token, span, choice
    per_token: ClassVar[bool] = False  # whether a head of our own speaks about tokens
    metric: ClassVar[str]  # the score that dev data choose by; higher is better
    # of one forward pass on a CPU: its states stay in cache. 1,024 are 3 % faster, and take 6 %
    # more memory (small; 742 instead of 697 MB)
    piece_tokens: ClassVar[int] = 768

    # whether texts need tokens around and between them: one state must speak for all, or end it
    marked: ClassVar[bool] = True
    usual_length: ClassVar[int] = 512  # tokens that are read when the user says nothing

    labels: tuple[str, ...] = ()

    # ------------------------------------------------------------ rows

    def columns(self) -> tuple[Field, ...]:
        """The fields of a row, for reading files."""
        return self.fields

    def learn(self, rows: Sequence[Row]) -> Self:
        """The task as the training rows define it: label names."""
        return self

    def suit(self, model: Checkpoint) -> Self:
        """The task as this model does it; called once, before anything is learned."""
        return self

    @property
    def outputs(self) -> int:
        """How many numbers the head says at each place."""
        return max(1, len(self.labels))

    def examples(
        self, rows: Sequence[Row], tokenizer: Tokenizer, limit: int, labelled: bool
    ) -> list[Example]:
        """What the model reads; texts are cut to `limit` tokens where the task has no better
        way."""
        raise TypeError(f"{self.name} has no examples")

    # ------------------------------------------------------------ batches

    def collate(self, examples: Sequence[Example]) -> Batch:
        """Packs examples, longest part first."""
        parts = [part for example in examples for part in example.parts]
        order = sorted(range(len(parts)), key=lambda i: (-len(parts[i].ids), i))
        batch = Batch.of([parts[i].ids for i in order], [parts[i].segments for i in order])
        place = np.empty(len(parts), np.int64)
        place[order] = np.arange(len(parts))
        starts = batch.layout.starts.numpy()[place]
        targets = {"place": torch.from_numpy(place)}
        if examples and examples[0].target is not None:
            targets |= self.targets(examples, starts)
        targets |= self.places(examples, starts)
        return dataclasses.replace(batch, targets=targets)

    def targets(self, examples: Sequence[Example], starts: NDArray[np.int64]) -> dict[str, Tensor]:
        """The right answers as tensors; starts[j] is where the j-th part begins in the batch."""
        raise TypeError(f"{self.name} has no targets")

    def places(self, examples: Sequence[Example], starts: NDArray[np.int64]) -> dict[str, Tensor]:
        """Tensors that the outputs need, with or without right answers (places of words, ...)."""
        return {}

    def count(self, batch: Batch) -> int:
        return len(batch.targets["label"])

    # ------------------------------------------------------------ the head

    def head(self, heads: Heads) -> nn.Module:
        """This task's head among those of a checkpoint."""
        for name in (self.head_kind, OWN):
            if name in heads:
                return heads[name]
        raise UserError(f"this model has no head for {self.name}; fine-tune it first")

    def asks(self, heads: Heads, batch: Batch) -> Tensor | None:
        asks = getattr(self.head(heads), "asks", None)
        return None if asks is None else asks(batch.layout)

    def logits(self, heads: Heads, states: States, batch: Batch) -> Tensor:
        """What the head says of each part, in the order of the parts: (parts, outputs)."""
        said: Tensor = self.head(heads)(states.layers, states.layout)
        return said[batch.targets["place"]]

    def answers(self, heads: Heads, states: States, batch: Batch) -> list[Any]:
        """What the model says of each example, on the host: arrays that `predict` understands."""
        return list(self.logits(heads, states, batch).float().cpu().numpy())

    def respond(self, model: Model, heads: Heads, batch: Batch) -> list[Any]:
        """`answers` of a batch; a task that asks the model several times does it here."""
        return self.answers(heads, model(asking(batch, [self.asks(heads, batch)])), batch)

    # ------------------------------------------------------------ judging

    def chosen_by(self, rows: Sequence[Row]) -> str:
        """The score that these dev rows choose by."""
        return self.metric

    def decide(self, rows: Sequence[Row], answers: Sequence[Any]) -> Decision:
        """What is to be chosen on dev data: thresholds, a temperature. Never called with test."""
        return {}

    def join(self, examples: Sequence[Example], answers: Sequence[Any]) -> list[Any]:
        """One answer per row from those of its examples (windows of a long text, ...)."""
        return list(answers)

    def predict(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> list[dict[str, Any]]:
        """What people get, one table per row, with the keys of transformers' pipelines."""
        raise TypeError(f"{self.name} does not predict")

    def scorer(self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision) -> Score:
        """All scores as a function of row weights: their values, and their intervals."""
        raise TypeError(f"{self.name} has no scores")

    def score(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> dict[str, float]:
        """All scores over all rows."""
        return value(self.scorer(rows, answers, decision), len(rows))

    def details(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> dict[str, Any]:
        """More for the report: confusion matrix, curves, scores per label, worst errors."""
        return {}

    def trouble(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> str | None:
        """Why these answers are worth nothing (one class for all, ...), or None."""
        return None

    # ------------------------------------------------------------ the record

    def as_table(self) -> dict[str, Any]:
        """For tianci.json; `restore` reads it back."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {"name": self.name, **{k: list(v) if isinstance(v, tuple) else v
                                      for k, v in values.items()}}  # fmt: skip

    def public_config(self) -> dict[str, Any]:
        """What config.json says about the task, for transformers."""
        return {}

    @property
    def chance(self) -> float | None:
        """The metric's value for guessing, where that is known."""
        return None


def index(labels: Sequence[str]) -> Mapping[str, int]:
    return {label: number for number, label in enumerate(labels)}
