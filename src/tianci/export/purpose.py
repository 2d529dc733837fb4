"""What a bundle is for: which head goes into it, what its numbers mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from tianci import sentence_files
from tianci.batch import Batch
from tianci.checkpoint import OWN, Checkpoint
from tianci.errors import UserError, unknown
from tianci.evaluate.tasks import reading_limit
from tianci.export import heads, parts
from tianci.export.graph import Graph
from tianci.goals.tasks import task_of
from tianci.goals.tasks.base import Task
from tianci.models.base import Encoder
from tianci.nn.task_heads import PlannedHead

WHAT = ("task", "embedding", "masked")
# what a task's numbers are; the two that are missing here write texts or are no task
NUMBERS = {
    "classify": "labels",
    "pair": "labels",
    "regress": "number",
    "tag": "token labels",
    "answer": "span",
    "choose": "choice",
    "similar": "vector",
}
Rows = Sequence[tuple[list[int], list[int]]]  # ids and segments
Said = dict[str, list[NDArray[np.float32]]]  # output -> one array per row


@dataclass(frozen=True)
class Purpose:
    """A checkpoint and what of it is exported."""

    saved: Checkpoint
    says: str  # labels, number, token labels, span, choice, vector, vocabulary
    limit: int  # tokens of an input
    task: Task | None = None
    pooling: dict[str, Any] = field(default_factory=dict)  # of vectors: pooling, normalize

    @property
    def model(self) -> Encoder:
        assert isinstance(self.saved.model, Encoder)
        return self.saved.model

    @property
    def head(self) -> Any:
        """The module that speaks; None where vectors are plain poolings."""
        if self.says == "vector":
            own = self.saved.heads.get(OWN)
            return own if isinstance(own, PlannedHead) and not own.plan.outputs else None
        return self.task.head(self.saved.heads) if self.task else self.saved.heads["masked"]

    # ------------------------------------------------------------ the graph

    def graph(self, int8: bool) -> Graph:
        """The whole model, with its inputs and outputs."""
        graph = Graph(int8)
        given = parts.inputs(graph, self.model)
        layers = parts.states(graph, self.model, given)
        batch, length = "batch", "length"
        if self.says == "vector":
            if self.head is not None:
                vectors = heads.head(graph, self.head, layers, given)
            else:
                vectors = heads.pooled(graph, self.pooling["pooling"], layers[-1], given)
            if self.pooling["normalize"]:
                vectors = heads.unit(graph, vectors)
            graph.output("sentence_embedding", vectors, (batch, "width"))
            graph.output("last_hidden_state", layers[-1], (batch, length, self.model.config.width))
        elif self.says == "vocabulary":
            said = heads.vocabulary(graph, self.head, self.model.token_table(), layers[-1])
            graph.output("logits", said, (batch, length, self.model.config.vocabulary))
        elif self.says == "span":
            said = heads.head(graph, self.head, layers, given)
            for name, part in zip(
                ("start_logits", "end_logits"),
                graph.several("Split", 2, said, axis=2),
                strict=True,
            ):
                flat = graph.op("Squeeze", part, graph.integers(2))
                graph.output(name, flat, (batch, length))
        else:
            said = heads.head(graph, self.head, layers, given)
            places = (batch, length) if self.says == "token labels" else (batch,)
            graph.output("logits", said, (*places, "outputs"))
        return graph

    # ------------------------------------------------------------ what we say ourselves

    @torch.inference_mode()
    def ours(self, rows: Rows) -> Said:
        """What our own model says of rows, packed: the same names as in the graph."""
        batch = Batch.of([ids for ids, _ in rows], [segments for _, segments in rows])
        states, lengths = self.model(batch), [len(ids) for ids, _ in rows]
        if self.says == "vector":
            if self.head is not None:
                vectors = self.head(states.layers, states.layout).float()
            else:
                vectors = states.pooled(self.pooling["pooling"]).float()
            vectors = F.normalize(vectors, dim=-1) if self.pooling["normalize"] else vectors
            return {
                "sentence_embedding": _rows(vectors, [1] * len(rows)),
                "last_hidden_state": _rows(states.last, lengths),
            }
        if self.says == "vocabulary":
            return {"logits": _rows(self.head(states.last, self.model.token_table()), lengths)}
        said = self.head(states.layers, states.layout)
        if self.says == "span":
            return {
                "start_logits": _rows(said[:, 0], lengths),
                "end_logits": _rows(said[:, 1], lengths),
            }
        return {"logits": _rows(said, lengths if self.says == "token labels" else [1] * len(rows))}


def _rows(said: Tensor, lengths: Sequence[int]) -> list[NDArray[np.float32]]:
    return [part.float().numpy() for part in torch.split(said, list(lengths))]


def purpose_of(saved: Checkpoint, folder: Path, what: str | None = None) -> Purpose:
    """What to export: as asked; else the task; else vectors where the directory says how to pool,
    or where there is no language model; else the language model."""
    if what is not None and what not in WHAT:
        raise unknown("part of a model", what, WHAT)
    if not isinstance(saved.model, Encoder) or "causal" in saved.heads:
        raise UserError(
            f"{folder}: a {saved.family} writes texts token by token, which no bundle can do yet "
            "(bert, roberta, albert and distilbert can be exported); use tianci serve, or export "
            "the directory with tools for the Hugging Face layout"
        )
    task, told = _task(saved), sentence_files.read(folder)
    if what is None:
        what = "task" if task else "embedding" if told or "masked" not in saved.heads else "masked"
    positions = int(saved.model.config.positions)
    if what == "masked":
        if "masked" not in saved.heads:
            raise UserError(f"{folder} has no masked-language-model head; try --what embedding")
        return Purpose(saved, "vocabulary", positions)
    if what == "task" and task is None:
        raise UserError(f"{folder} was not trained for a task; give --what embedding or masked")
    if what == "task" and task is not None and task.name not in NUMBERS:
        raise UserError(
            f"{folder}: a model for {task.name} writes texts token by token, which no bundle can "
            "do yet; use tianci serve"
        )
    limit = reading_limit(saved, task, int(saved.about.get("limit") or 0)) if task else positions
    if what == "task" and task is not None and task.name != "similar":
        return Purpose(saved, NUMBERS[task.name], limit, task)
    own = saved.heads.get(OWN)
    plan = own.plan if isinstance(own, PlannedHead) and not own.plan.outputs else None
    trained = plan is not None
    pooling = {
        "pooling": plan.pooling if plan is not None else told.get("pooling", "mean"),
        "normalize": bool(told.get("normalize", trained)),
    }
    most = min(positions, int(told.get("limit") or (limit if trained else positions)))
    return Purpose(saved, "vector", most, task if trained else None, pooling)


def _task(saved: Checkpoint) -> Task | None:
    try:
        return task_of(saved)
    except UserError:
        return None
