"""Sentence vectors: texts that mean the same lie close together, by the cosine.

What is learned follows from the rows:
- pairs (without labels, or all labelled 1): each text finds its partner among all of its batch;
- single texts: each text finds itself again under another dropout (SimCSE, Gao and others, 2021);
- pairs with scores, also 0 and 1: the cosines come into the order of the scores (CoSENT).
The first two learn from strangers in the same batch. A batch that is too large for one forward pass
is cut (`piece_tokens`), and several processes share it: then every piece has its own strangers, the
sum is still divided by the whole batch, and the loss is that of a smaller batch.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from tianci.batch import Batch
from tianci.data.rows import Field, Row
from tianci.data.rows_fields import LABEL, NUMBER, PAIR, TEXT
from tianci.errors import UserError
from tianci.goals.base import Heads, Loss
from tianci.goals.tasks.base import Decision, Example, Part, Task
from tianci.metrics import embeddings, ranking
from tianci.metrics.score import Score
from tianci.models.base import Model, States
from tianci.nn.contrast import cosent, info_nce
from tianci.settings import setting
from tianci.text.tokenizer import Tokenizer

Floats = NDArray[np.float64]
TRUTH = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True)
class Similar(Task):
    """One vector per text; two texts are as similar as the cosine of their vectors."""

    name: ClassVar[str] = "similar"
    fields: ClassVar[tuple[Field, ...]] = (
        Field("text", TEXT),
        Field("pair", PAIR, required=False),
        Field("label", (*LABEL, *NUMBER), required=False, kind="label"),
    )
    # no family has such a head: it is a plan without outputs, the pooled vector itself
    head_kind: ClassVar[str] = "embedding"
    marked: ClassVar[bool] = False
    metric: ClassVar[str] = "spearman"
    piece_tokens: ClassVar[int] = 16384  # as many strangers as possible meet

    how: Literal["auto", "pairs", "texts", "scores"] = setting(
        "auto", "what to learn from: pairs that mean the same, single texts, scored pairs"
    )
    temperature: float = setting(0.05, "how sharply near and far are told apart")
    positive: str = setting("", "the label of pairs that mean the same (default: 1 or true)")

    def __post_init__(self) -> None:
        if not 0 < self.temperature <= 10:
            raise UserError(
                f"similar.temperature is {self.temperature}, but must be above 0 (usual: 0.05)"
            )

    @property
    def outputs(self) -> int:
        return 0

    # ------------------------------------------------------------ rows

    def gold(self, row: Row) -> float | None:
        """How similar the row's texts are; None where nobody says."""
        label = row.values.get("label")
        if label is None:
            return None
        if self.positive:
            return float(label == self.positive)
        try:
            value = TRUTH.get(label.lower(), math.nan)
            value = float(label) if math.isnan(value) else value
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise UserError(
                f'{row.place}: the label "{label}" is no number; say which label means '
                "that two texts mean the same: --set similar.positive=LABEL"
            )
        return value

    def learn(self, rows: Sequence[Row]) -> Self:
        """How to learn follows from the first file: raw text can be judged by scored pairs."""
        files: dict[str, list[Row]] = {}
        for row in rows:
            files.setdefault(row.file, []).append(row)
        for found in files.values():
            self._check_alike(found)
        rows = files[rows[0].file]
        alone = [row for row in rows if "pair" not in row.values]
        known = {gold for gold in map(self.gold, rows) if gold is not None}
        how = self.how
        if how == "auto":
            # pairs that are said to differ teach more than strangers do (LOG.md)
            alike = len(known) < 2 and known <= {0.0, 1.0}
            how = "texts" if alone else "pairs" if alike else "scores"
        if how != "texts" and alone:
            raise UserError(f"{alone[0].place}: similar.how={how} needs two texts in each row")
        if how == "scores" and len(known) < 2:
            raise UserError(f"{rows[0].file}: similar.how=scores needs at least two scores")
        if how == "pairs" and known and not (1.0 in known and known <= {0.0, 1.0}):
            raise UserError(
                f"{rows[0].file}: similar.how=pairs needs rows labelled 1 (the same) and else 0"
            )
        return dataclasses.replace(self, how=how)

    def _check_alike(self, rows: Sequence[Row]) -> None:
        """All rows of a file have a second text, or none; the same with labels."""
        alone = [row for row in rows if "pair" not in row.values]
        if alone and len(alone) < len(rows):
            raise UserError(f"{alone[0].place}: no second text, but other rows have one")
        golds = [self.gold(row) for row in rows]
        if None in golds and any(gold is not None for gold in golds):
            place = rows[golds.index(None)].place
            raise UserError(f"{place}: no label, but other rows have one")

    def examples(
        self, rows: Sequence[Row], tokenizer: Tokenizer, limit: int, labelled: bool
    ) -> list[Example]:
        texts = [row.values["text"] for row in rows]
        pairs = [row.values.get("pair") for row in rows]
        first = [Part(*found) for found in tokenizer.inputs(texts, limit=limit)]
        there = [pair for pair in pairs if pair is not None]
        second = iter([Part(*found) for found in tokenizer.inputs(there, limit=limit)])
        parts = [
            (one,) if pair is None else (one, next(second))
            for one, pair in zip(first, pairs, strict=True)
        ]
        if not labelled:
            return [Example(n, both) for n, both in enumerate(parts)]
        if self.how == "texts":  # dropout makes the difference between the two
            return [Example(n, (part, part), 1.0) for n, both in enumerate(parts) for part in both]
        golds = [1.0 if gold is None else gold for gold in map(self.gold, rows)]
        kept = [n for n in range(len(rows)) if self.how == "scores" or golds[n] == 1.0]
        return [Example(n, parts[n], golds[n]) for n in kept]

    # ------------------------------------------------------------ batches

    def targets(self, examples: Sequence[Example], starts: NDArray[np.int64]) -> dict[str, Tensor]:
        number: dict[tuple[int, ...], int] = {}  # texts of this batch, the same ones once
        texts = [[number.setdefault(tuple(p.ids), len(number)) for p in e.parts] for e in examples]
        return {
            "label": torch.tensor([e.target for e in examples], dtype=torch.float32),
            "text": torch.tensor(texts, dtype=torch.int64),
        }

    def places(self, examples: Sequence[Example], starts: NDArray[np.int64]) -> dict[str, Tensor]:
        return {"parts": torch.tensor([len(e.parts) for e in examples], dtype=torch.int64)}

    def vectors(self, heads: Heads, states: States, batch: Batch) -> Tensor:
        """(parts, W) of length 1, in the order of the parts."""
        return F.normalize(self.logits(heads, states, batch).float(), dim=-1)

    def loss(self, model: Model, heads: Heads, states: States, batch: Batch) -> Loss:
        vectors = self.vectors(heads, states, batch)
        first, second = vectors[0::2], vectors[1::2]
        if self.how == "scores":
            cosine, gold = (first * second).sum(1), batch.targets["label"]
            return Loss(*cosent(cosine, gold, self.temperature))
        # whoever shares a text is no stranger
        text = batch.targets["text"]
        equal = (text[:, None, :, None] == text[None, :, None, :]).any(-1).any(-1)
        return Loss(*info_nce(first, second, equal, self.temperature))

    def answers(self, heads: Heads, states: States, batch: Batch) -> list[Any]:
        found = self.vectors(heads, states, batch).cpu().numpy()
        ends = np.cumsum(batch.targets["parts"].cpu().numpy())
        return np.split(found, ends[:-1])

    # ------------------------------------------------------------ judging

    def predict(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = []
        for answer in answers:
            if len(answer) == 1:
                results.append({"embedding": answer[0].tolist()})
                continue
            score = float(cosines([answer])[0])
            known = "threshold" in decision
            label = {"label": str(int(score >= decision["threshold"]))} if known else {}
            results.append({**label, "score": score})
        return results

    def golds(self, rows: Sequence[Row]) -> Floats | None:
        """How similar the texts of each row are; None where that is not known, or always 1."""
        found = [self.gold(row) for row in rows if "pair" in row.values]
        if len(found) < len(rows) or None in found or set(found) == {1.0}:
            return None
        return np.array(found, np.float64)

    def chosen_by(self, rows: Sequence[Row]) -> str:
        if self.golds(rows) is not None:
            return self.metric
        return "mrr" if all("pair" in row.values for row in rows) else "uniformity"

    def decide(self, rows: Sequence[Row], answers: Sequence[Any]) -> Decision:
        gold = self.golds(rows)
        if gold is None or not _binary(gold):
            return {}
        return {"threshold": embeddings.best_cut(cosines(answers), gold == 1)[0]}

    def scorer(self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision) -> Score:
        gold = self.golds(rows)
        if gold is not None:
            limit = decision.get("threshold") if _binary(gold) else None
            return embeddings.similarity_score(gold, cosines(answers), limit)
        if all(len(answer) == 2 for answer in answers):
            first, second = (np.stack([a[n] for a in answers]) for n in (0, 1))
            return embeddings.retrieval_score(first, second)
        return embeddings.spread_score(np.stack([answer[0] for answer in answers]))

    def details(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> dict[str, Any]:
        gold = self.golds(rows)
        if gold is None:
            return {}
        said = cosines(answers)
        points = [[round(float(g), 4), round(float(s), 4)] for g, s in zip(gold, said, strict=True)]
        # the scale of the scores is not that of the cosines: what counts is the place in the order
        off = np.abs(embeddings.ranks(gold) - embeddings.ranks(said))
        found: dict[str, Any] = {
            "scatter": points[:: max(1, len(points) // 1000)],
            "errors": [
                {
                    "place": rows[n].place,
                    "text": rows[n].values["text"],
                    "pair": rows[n].values["pair"],
                    "label": float(gold[n]),
                    "predicted": float(said[n]),
                }
                for n in np.argsort(-off, kind="stable")[:30].tolist()
            ],
        }
        return found | ({"curves": ranking.curves(gold == 1, said)} if _binary(gold) else {})

    def trouble(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> str | None:
        first = np.stack([answer[0] for answer in answers]) if len(answers) else np.zeros((0, 1))
        if len(rows) < 10 or np.linalg.norm(first - first.mean(0), axis=1).max() > 1e-2:
            return None
        return f"all {len(rows):,} dev texts get the same vector"


def cosines(answers: Sequence[Any]) -> Floats:
    """Of the two vectors of each answer, which have length 1."""
    return np.array([float(a[0].astype(np.float64) @ a[1]) for a in answers], np.float64)


def _binary(gold: Floats) -> bool:
    return set(gold.tolist()) <= {0.0, 1.0}


TASK = Similar
