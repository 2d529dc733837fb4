"""One text, one label of two or more, or several labels at once."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from tianci.batch import Batch
from tianci.data.rows import Field, Row
from tianci.data.rows_fields import LABEL, TEXT
from tianci.errors import UserError
from tianci.goals.base import Heads, Loss
from tianci.goals.tasks.base import Decision, Example, Part, Task, index
from tianci.metrics import calibration, classification, ranking, threshold
from tianci.metrics.score import Score
from tianci.models.base import Model, States
from tianci.settings import setting
from tianci.text.tokenizer import Tokenizer

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Classify(Task):
    """The class of a text."""

    name: ClassVar[str] = "classify"
    fields: ClassVar[tuple[Field, ...]] = (
        Field("text", TEXT),
        Field("pair", ("text_b", "text_pair"), required=False),
        Field("label", LABEL, kind="label"),
    )
    head_kind: ClassVar[str] = "sequence"
    metric: ClassVar[str] = "accuracy"

    many: bool = setting(False, "a text may have several labels, or none")
    positive: str = setting("", "of two labels the one that is looked for (default: the second)")
    smoothing: float = setting(0.0, "label smoothing")

    def columns(self) -> tuple[Field, ...]:
        kind = "labels" if self.many else "label"
        return tuple(
            dataclasses.replace(f, kind=kind) if f.name == "label" else f for f in self.fields
        )

    def learn(self, rows: Sequence[Row]) -> Self:
        counts: Counter[str] = Counter()
        for row in rows:
            counts.update(row.values["label"] if self.many else [row.values["label"]])
        names = sorted(counts, key=_natural)
        if len(names) < 2 and not self.many:
            raise UserError(
                f"{rows[0].file}: all {len(rows):,} rows have the label {names[0]!r}; there is "
                "nothing to tell apart"
            )
        if self.positive:
            if self.positive not in names:
                raise UserError(f'{rows[0].file}: no row has the label "{self.positive}"')
            names.sort(key=lambda name: name == self.positive)
        return dataclasses.replace(self, labels=tuple(names))

    # ------------------------------------------------------------ examples

    def examples(
        self, rows: Sequence[Row], tokenizer: Tokenizer, limit: int, labelled: bool
    ) -> list[Example]:
        targets = [self.target(row) for row in rows] if labelled else [None] * len(rows)
        return [
            Example(n, parts, target)
            for n, (parts, target) in enumerate(
                zip(self.parts(rows, tokenizer, limit), targets, strict=True)
            )
        ]

    def parts(
        self, rows: Sequence[Row], tokenizer: Tokenizer, limit: int
    ) -> list[tuple[Part, ...]]:
        """The sequences of each row."""
        return [(part,) for part in encode(rows, tokenizer, limit)]

    def target(self, row: Row) -> Any:
        known = index(self.labels)
        wanted = row.values["label"] if self.many else [row.values["label"]]
        for label in wanted:
            if label not in known:
                raise UserError(
                    f'{row.place}: the label "{label}" does not occur in the training data '
                    f"(known: {', '.join(self.labels)})"
                )
        if not self.many:
            return known[wanted[0]]
        return np.isin(np.arange(len(self.labels)), [known[w] for w in wanted]).astype(np.float32)

    def targets(self, examples: Sequence[Example], starts: NDArray[np.int64]) -> dict[str, Tensor]:
        return {"label": torch.from_numpy(np.stack([np.asarray(e.target) for e in examples]))}

    # ------------------------------------------------------------ learning

    def loss(self, model: Model, heads: Heads, states: States, batch: Batch) -> Loss:
        logits, gold = self.logits(heads, states, batch).float(), batch.targets["label"]
        if self.many:
            losses = F.binary_cross_entropy_with_logits(logits, gold, reduction="none").mean(1)
            return Loss(losses.sum(), torch.eq(logits > 0, gold > 0.5).all(1).sum())
        total = F.cross_entropy(logits, gold, reduction="sum", label_smoothing=self.smoothing)
        return Loss(total, torch.eq(logits.argmax(1), gold).sum())

    # ------------------------------------------------------------ judging

    @property
    def binary(self) -> bool:
        return len(self.labels) == 2 and not self.many

    def chosen_by(self, rows: Sequence[Row]) -> str:
        return "micro_f1" if self.many else self.metric

    def decide(self, rows: Sequence[Row], answers: Sequence[Any]) -> Decision:
        logits, gold = np.stack(answers).astype(np.float64), self.gold(rows)
        decision: Decision = {"temperature": calibration.fit_temperature(logits, gold)}
        if self.binary:
            shown = self.probabilities(answers, decision)
            decision["threshold"], _ = threshold.best_threshold(shown[:, 1], gold)
        return decision

    def gold(self, rows: Sequence[Row]) -> NDArray[Any]:
        return np.stack([np.asarray(self.target(row)) for row in rows])

    def probabilities(self, answers: Sequence[Any], decision: Decision) -> Floats:
        logits = np.stack(answers).astype(np.float64) / decision.get("temperature", 1.0)
        if self.many:
            return np.asarray(1 / (1 + np.exp(-logits)))
        shifted = np.exp(logits - logits.max(1, keepdims=True))
        return np.asarray(shifted / shifted.sum(1, keepdims=True))

    def chosen(self, shown: Floats, decision: Decision) -> NDArray[np.int64]:
        """The label of each row, by the threshold where there is one."""
        if self.binary and "threshold" in decision:
            return np.asarray(shown[:, 1] >= decision["threshold"], np.int64)
        return np.asarray(shown.argmax(1), np.int64)

    def predict(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> list[dict[str, Any]]:
        if not len(answers):
            return []
        shown = self.probabilities(answers, decision)
        if self.many:
            results = []
            for row in shown:
                scores = {label: float(p) for label, p in zip(self.labels, row, strict=True)}
                found = [label for label, p in scores.items() if p >= 0.5]
                best = max(scores, key=lambda name: scores[name])
                results.append(
                    {"labels": found, "label": best, "score": scores[best], "scores": scores}
                )
            return results
        return [
            {
                "label": self.labels[best],
                "score": float(row[best]),
                "scores": {name: float(p) for name, p in zip(self.labels, row, strict=True)},
            }
            for best, row in zip(self.chosen(shown, decision).tolist(), shown, strict=True)
        ]

    def scorer(self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision) -> Score:
        shown, gold = self.probabilities(answers, decision), self.gold(rows)
        if self.many:
            return classification.many_score(gold, shown, self.labels)
        limit = decision.get("threshold") if self.binary else None
        return classification.class_score(gold, shown, self.labels, limit)

    def details(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> dict[str, Any]:
        shown, gold = self.probabilities(answers, decision), self.gold(rows)
        plain = self.probabilities(answers, {})
        found: dict[str, Any] = {
            "label_counts": {
                name: int(n) for name, n in zip(self.labels, self._sizes(gold), strict=True)
            },
            "calibration_error": calibration.expected_calibration_error(shown, gold),
            "calibration_error_before": calibration.expected_calibration_error(plain, gold),
            "reliability": calibration.reliability(shown, gold),
        }
        if self.many:
            return found | self._details_of_many(rows, shown, gold)
        chosen = self.chosen(shown, decision)
        found["confusion"] = classification.confusion(gold, chosen, len(self.labels)).tolist()
        if self.binary:
            found["curves"] = ranking.curves(gold, shown[:, 1])
            found["dev_probabilities"] = [float(p) for p in shown[:, 1]]
            found["dev_gold"] = [int(g) for g in gold]
        # the worst errors: those the model was surest of
        sure = shown[np.arange(len(gold)), chosen]
        wrong = np.flatnonzero(chosen != gold)
        found["errors"] = [
            {
                "place": rows[n].place,
                "text": rows[n].values["text"],
                **({"pair": rows[n].values["pair"]} if "pair" in rows[n].values else {}),
                "label": self.labels[gold[n]],
                "predicted": self.labels[chosen[n]],
                "score": float(sure[n]),
            }
            for n in wrong[np.argsort(-sure[wrong])][:30].tolist()
        ]
        return found

    def _details_of_many(
        self, rows: Sequence[Row], shown: Floats, gold: NDArray[Any]
    ) -> dict[str, Any]:
        """Scores per label, and the rows with a wrong label that the model was surest of."""
        said = shown >= 0.5
        off = np.where(said != (gold > 0.5), np.abs(shown - gold), 0.0).max(1)

        def names(flags: NDArray[Any]) -> str:
            return ", ".join(self.labels[n] for n in np.flatnonzero(flags).tolist())

        return {
            "per_label": classification.class_table(gold, said, self.labels),
            "errors": [
                {
                    "place": rows[n].place,
                    "text": rows[n].values["text"],
                    "label": names(gold[n] > 0.5),
                    "predicted": names(said[n]),
                    "score": float(off[n]),
                }
                for n in np.argsort(-off, kind="stable")[:30].tolist()
                if off[n] > 0
            ],
        }

    def trouble(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> str | None:
        # by the raw answers: a threshold chosen on dev may hide that the model says one thing
        if len(rows) < 10:
            return None
        plain, gold = self.probabilities(answers, {}), self.gold(rows)
        if self.many:
            given = plain >= 0.5
            if (given != given[0]).any() or (gold == gold[0]).all():
                return None
            names = ", ".join(f'"{self.labels[n]}"' for n in np.flatnonzero(given[0]).tolist())
            return f"it gives {names or 'no label'} to all {len(rows):,} dev rows"
        said = np.bincount(plain.argmax(1), minlength=len(self.labels))
        if said.max() < len(rows) or len(np.unique(gold)) < 2:
            return None
        label = self.labels[int(said.argmax())]
        asked = " when asked without a threshold" if len(self.labels) == 2 else ""
        return f'it says "{label}" for all {len(rows):,} dev rows{asked}'

    def _sizes(self, gold: NDArray[Any]) -> NDArray[np.int64]:
        if self.many:
            return np.asarray(gold.sum(0), np.int64)
        return np.bincount(gold, minlength=len(self.labels))

    def public_config(self) -> dict[str, Any]:
        kind = "multi_label_classification" if self.many else "single_label_classification"
        return {"problem_type": kind}

    @property
    def chance(self) -> float | None:
        return None if self.many else 1 / max(1, len(self.labels))


def both_orders(rows: Sequence[Row], tokenizer: Tokenizer, limit: int) -> list[tuple[Part, ...]]:
    """Each pair as (a b) and (b a), for relations that have no direction (GPT, 2018)."""
    alone = next((row for row in rows if "pair" not in row.values), None)
    if alone is not None:
        raise UserError(f"{alone.place}: symmetric pairs need two texts in each row")
    turned = [
        dataclasses.replace(row, values={**row.values, "text": row.values["pair"],
                                         "pair": row.values["text"]})
        for row in rows
    ]  # fmt: skip
    return list(zip(encode(rows, tokenizer, limit), encode(turned, tokenizer, limit), strict=True))


def encode(rows: Sequence[Row], tokenizer: Tokenizer, limit: int) -> list[Part]:
    """Texts, or pairs where the rows have them, with the template's special tokens."""
    found: dict[int, tuple[list[int], list[int]]] = {}
    # a row with a pair has another template than one without: neighbours must not decide that
    for paired in (False, True):
        some = [n for n, row in enumerate(rows) if ("pair" in row.values) == paired]
        texts = [rows[n].values["text"] for n in some]
        pairs = [rows[n].values["pair"] for n in some] if paired else None
        found |= zip(some, tokenizer.inputs(texts, pairs, limit=limit), strict=True)
    return [Part(*found[n]) for n in range(len(rows))]


def _natural(label: str) -> tuple[int, float, str]:
    """Numbers in their order, then words in theirs."""
    try:
        return (0, float(label), label)
    except ValueError:
        return (1, 0.0, label)


TASK = Classify
