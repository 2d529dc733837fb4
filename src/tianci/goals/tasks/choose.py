"""A text, a question and several choices, of which one is right; rows may differ in their number.

Each choice is a sequence of its own, as in BERT and in transformers' RACE: [CLS] context [SEP]
question choice [SEP]. The head says one number of each; the softmax goes over a row's choices.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from tianci.batch import Batch, Layout
from tianci.data.rows import Field, Row
from tianci.data.rows_fields import CHOICES, CONTEXT, LABEL, QUESTION
from tianci.errors import UserError
from tianci.goals.base import Heads, Loss
from tianci.goals.tasks.base import Decision, Example, Part, Task
from tianci.metrics import calibration
from tianci.metrics.score import Score, of_means
from tianci.models.base import Model, States
from tianci.settings import setting
from tianci.text.tokenizer import Tokenizer

Floats = NDArray[np.float64]
GAP = re.compile("_+")


@dataclass(frozen=True)
class Choose(Task):
    """The right one of several choices."""

    name: ClassVar[str] = "choose"
    fields: ClassVar[tuple[Field, ...]] = (
        Field("context", (*CONTEXT, "premise", "text")),
        Field("question", QUESTION, required=False),
        Field("choices", CHOICES, kind="texts"),
        Field("label", (*LABEL, "answer"), kind="label"),
    )
    head_kind: ClassVar[str] = "choice"
    metric: ClassVar[str] = "accuracy"

    guessing: float = setting(0.0, "accuracy of guessing (found in the training data)")

    def learn(self, rows: Sequence[Row]) -> Self:
        share = np.mean([1 / len(choices_of(row)) for row in rows])
        return dataclasses.replace(self, guessing=float(share))

    @property
    def outputs(self) -> int:
        return 1

    # ------------------------------------------------------------ examples

    def examples(
        self, rows: Sequence[Row], tokenizer: Tokenizer, limit: int, labelled: bool
    ) -> list[Example]:
        targets = [right(row) if labelled else None for row in rows]
        parts = encode(rows, tokenizer, limit)
        return [
            Example(n, tuple(next(parts) for _ in choices_of(row)), target)
            for n, (row, target) in enumerate(zip(rows, targets, strict=True))
        ]

    def targets(self, examples: Sequence[Example], starts: NDArray[np.int64]) -> dict[str, Tensor]:
        return {"label": torch.tensor([e.target for e in examples])}

    def places(self, examples: Sequence[Example], starts: NDArray[np.int64]) -> dict[str, Tensor]:
        return {"choices": torch.tensor([len(e.parts) for e in examples])}

    # ------------------------------------------------------------ learning

    def loss(self, model: Model, heads: Heads, states: States, batch: Batch) -> Loss:
        said = self.logits(heads, states, batch).float()[:, 0]
        rows = Layout(batch.targets["choices"].tolist(), said.device)
        table, gold = rows.pad(said, -torch.inf), batch.targets["label"]
        total = F.cross_entropy(table, gold, reduction="sum")
        return Loss(total, torch.eq(table.argmax(1), gold).sum())

    def answers(self, heads: Heads, states: States, batch: Batch) -> list[Any]:
        said = self.logits(heads, states, batch).float().cpu().numpy()[:, 0]
        return np.split(said, batch.targets["choices"].cumsum(0)[:-1].tolist())

    # ------------------------------------------------------------ judging

    def decide(self, rows: Sequence[Row], answers: Sequence[Any]) -> Decision:
        return {"temperature": calibration.fit_temperature(table_of(answers), gold(rows))}

    def probabilities(self, answers: Sequence[Any], decision: Decision) -> Floats:
        """(rows, most choices), 0 where a row has fewer."""
        logits = table_of(answers) / decision.get("temperature", 1.0)
        shifted = np.exp(logits - logits.max(1, keepdims=True))
        return np.asarray(shifted / shifted.sum(1, keepdims=True))

    def predict(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> list[dict[str, Any]]:
        if not len(answers):
            return []
        results = []
        for row, scores in zip(rows, self.probabilities(answers, decision), strict=True):
            choices, best = choices_of(row), int(scores.argmax())
            results.append(
                {
                    "label": best,
                    "choice": choices[best],
                    "score": float(scores[best]),
                    "scores": [float(p) for p in scores[: len(choices)]],
                }
            )
        return results

    def scorer(self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision) -> Score:
        said = [int(answer.argmax()) for answer in answers]
        return of_means({"accuracy": np.array(said) == gold(rows)})

    def details(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> dict[str, Any]:
        shown, truth = self.probabilities(answers, decision), gold(rows)
        plain = self.probabilities(answers, {})
        said = shown.argmax(1)
        sure = shown.max(1)
        wrong = np.flatnonzero(said != truth)
        return {
            "label_counts": {str(n): int(c) for n, c in enumerate(np.bincount(truth))},
            "predicted_counts": {str(n): int(c) for n, c in enumerate(np.bincount(said))},
            "calibration_error": calibration.expected_calibration_error(shown, truth),
            "calibration_error_before": calibration.expected_calibration_error(plain, truth),
            "reliability": calibration.reliability(shown, truth),
            "errors": [
                {
                    "place": rows[n].place,
                    "context": rows[n].values["context"],
                    "question": rows[n].values.get("question", ""),
                    "label": choices_of(rows[n])[truth[n]],
                    "predicted": choices_of(rows[n])[said[n]],
                    "score": float(sure[n]),
                }
                for n in wrong[np.argsort(-sure[wrong], kind="stable")][:30].tolist()
            ],
        }

    def trouble(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> str | None:
        if len(rows) < 10 or len(np.unique(gold(rows))) < 2:
            return None
        said = {int(answer.argmax()) for answer in answers}
        if len(said) > 1:
            return None
        return f"it takes choice {said.pop() + 1} in all {len(rows):,} dev rows"

    @property
    def chance(self) -> float | None:
        return self.guessing or None


# ---------------------------------------------------------------- rows


def choices_of(row: Row) -> list[str]:
    """The choices of a row, at least one."""
    choices: list[str] = row.values["choices"]
    if not choices:
        raise UserError(f"{row.place}: the list of choices is empty; leave out the row")
    return choices


def right(row: Row) -> int:
    """The number of the right choice; a letter (RACE has A, B, ...) counts too."""
    label, count = row.values["label"], len(choices_of(row))
    if len(label) == 1 and "A" <= label.upper() <= "Z":
        number = ord(label.upper()) - ord("A")
    else:
        number = int(label) if label.isdecimal() else -1
    if not 0 <= number < count:
        raise UserError(
            f'{row.place}: the label "{label}" is none of its {count} choices; give the number of '
            f"the right one, from 0 to {count - 1}"
        )
    return number


def gold(rows: Sequence[Row]) -> NDArray[np.int64]:
    return np.array([right(row) for row in rows], np.int64)


def table_of(answers: Sequence[Any]) -> Floats:
    """The logits of all rows, (rows, most choices), minus infinity where a row has fewer."""
    table = np.full((len(answers), max(map(len, answers), default=0)), -np.inf)
    for row, answer in zip(table, answers, strict=True):
        row[: len(answer)] = answer
    return table


# ---------------------------------------------------------------- texts


def statement(question: str | None, choice: str) -> str:
    """The question with the choice in its gap, or behind it."""
    if not question:
        return choice
    if len(GAP.findall(question)) == 1:
        return GAP.sub(lambda _: choice, question)
    return f"{question} {choice}"


def encode(rows: Sequence[Row], tokenizer: Tokenizer, limit: int) -> Iterator[Part]:
    """The sequences of all choices of all rows.

    Where there is no room the context loses its end; only then the question loses its beginning,
    because without the choice there would be nothing to judge.
    """
    room = tokenizer.room(limit, pair=True)
    if room < 1:
        raise UserError(f"a limit of {limit} tokens leaves no room for the choices")
    distinct = list(dict.fromkeys(row.values["context"] for row in rows))
    contexts = dict(zip(distinct, tokenizer.ids(distinct, special=False), strict=True))
    pairs = [(row, choice) for row in rows for choice in choices_of(row)]
    texts = [statement(row.values.get("question"), choice) for row, choice in pairs]
    for (row, _), second in zip(pairs, tokenizer.ids(texts, special=False), strict=True):
        second = second[-room:] if len(second) > room else second
        first = contexts[row.values["context"]][: room - len(second)]
        yield Part(*tokenizer.wrap(first, second))


TASK = Choose
