"""A number for a text or a pair of texts, such as how similar two sentences are."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tianci.batch import Batch
from tianci.data.rows import Field, Row
from tianci.data.rows_fields import NUMBER, PAIR, TEXT
from tianci.goals.base import Heads, Loss
from tianci.goals.tasks.base import Decision, Example, Task
from tianci.goals.tasks.classify import both_orders, encode
from tianci.metrics import regression
from tianci.metrics.score import Score
from tianci.models.base import Model, States
from tianci.settings import setting
from tianci.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Regress(Task):
    """A number; learned by the squared error, as transformers does with one output."""

    name: ClassVar[str] = "regress"
    fields: ClassVar[tuple[Field, ...]] = (
        Field("text", TEXT),
        Field("pair", PAIR, required=False),
        Field("number", NUMBER, kind="number"),
    )
    head_kind: ClassVar[str] = "sequence"
    metric: ClassVar[str] = "pearson"

    low: float | None = setting(None, "smallest number in the training data (found by itself)")
    high: float | None = setting(None, "largest number in the training data (found by itself)")

    symmetric: bool = setting(False, "read each pair in both orders, for relations that have none")

    def learn(self, rows: Sequence[Row]) -> Self:
        values = [row.values["number"] for row in rows]
        return dataclasses.replace(self, low=float(min(values)), high=float(max(values)))

    def examples(
        self, rows: Sequence[Row], tokenizer: Tokenizer, limit: int, labelled: bool
    ) -> list[Example]:
        if self.symmetric:
            parts = both_orders(rows, tokenizer, limit)
        else:
            parts = [(part,) for part in encode(rows, tokenizer, limit)]
        return [
            Example(n, some, float(row.values["number"]) if labelled else None)
            for n, (some, row) in enumerate(zip(parts, rows, strict=True))
        ]

    def logits(self, heads: Heads, states: States, batch: Batch) -> Tensor:
        said = super().logits(heads, states, batch)
        return said[0::2] + said[1::2] if self.symmetric else said  # as in pair

    def targets(self, examples: Sequence[Example], starts: NDArray[np.int64]) -> dict[str, Tensor]:
        return {"label": torch.tensor([e.target for e in examples], dtype=torch.float32)}

    def loss(self, model: Model, heads: Heads, states: States, batch: Batch) -> Loss:
        said, gold = self.logits(heads, states, batch).float()[:, 0], batch.targets["label"]
        near = (said.detach() - gold).abs() < 0.1 * ((self.high or 1.0) - (self.low or 0.0))
        return Loss(((said - gold) ** 2).sum(), near.sum())

    def predict(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> list[dict[str, Any]]:
        return [{"score": float(answer[0])} for answer in answers]

    def scorer(self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision) -> Score:
        gold = np.array([row.values["number"] for row in rows], np.float64)
        said = np.array([answer[0] for answer in answers], np.float64)
        return regression.number_score(gold, said)

    def details(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> dict[str, Any]:
        gold = np.array([row.values["number"] for row in rows], np.float64)
        said = np.array([answer[0] for answer in answers], np.float64)
        worst = np.argsort(-np.abs(gold - said))[:30].tolist()
        points = [[round(float(g), 4), round(float(s), 4)] for g, s in zip(gold, said, strict=True)]
        return {
            "scatter": points[:: max(1, len(points) // 1000)],
            "errors": [
                {
                    "place": rows[n].place,
                    "text": rows[n].values["text"],
                    **({"pair": rows[n].values["pair"]} if "pair" in rows[n].values else {}),
                    "label": float(gold[n]),
                    "predicted": float(said[n]),
                }
                for n in worst
            ],
        }

    def trouble(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> str | None:
        said = np.array([answer[0] for answer in answers], np.float64)
        reach = (self.high or 1.0) - (self.low or 0.0)
        if len(rows) < 10 or said.std() > 1e-3 * reach:
            return None
        return f"it says {said.mean():.3g} for all {len(rows):,} dev rows"

    def public_config(self) -> dict[str, Any]:
        # transformers counts the outputs by their names, and takes two where there are none
        one = {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
        return {"problem_type": "regression", **one}


TASK = Regress
