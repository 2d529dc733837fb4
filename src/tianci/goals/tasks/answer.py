"""A question and a document: the answer is a piece of the document, or there is none.

As in BERT: [CLS] question [SEP] window [SEP]; a vector for beginnings, one for ends. The softmax
goes over the window's tokens and [CLS], which stands for "not here" (in a decoder the last token,
because the first one has seen nothing); the question is no candidate.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from tianci.batch import Batch
from tianci.checkpoint import Checkpoint
from tianci.data.rows import Field, Row
from tianci.data.rows_fields import ANSWERS, CONTEXT, IMPOSSIBLE, QUESTION
from tianci.data.windows import (
    Offsets,
    Spans,
    Window,
    best_spans,
    in_text,
    inside,
    locate,
    merge,
    read_documents,
    tokens_between,
    windows,
)
from tianci.errors import UserError
from tianci.goals.base import Heads, Loss
from tianci.goals.tasks.base import Decision, Example, Part, Task
from tianci.metrics import answers as exact
from tianci.metrics.language import language_of
from tianci.metrics.score import Score
from tianci.models import family
from tianci.models.base import Model, States
from tianci.settings import setting
from tianci.text.tokenizer import Tokenizer

KEPT = 20  # spans that stay of each window and of each question, as in SQuAD's n-best lists
OTHERS = 3  # runners-up that are shown
NOTHING = -1e6  # the score of the best span where there is none (an empty document)
LONGEST = {"en": 30, "zh": 50}  # tokens of an answer; Chinese ones are characters


class Said(NamedTuple):
    """What the model says of a window (spans of its tokens) or of a row (spans of the text)."""

    spans: Spans
    null: float  # logits of "not here"


@dataclass(frozen=True)
class Answer(Task):
    """The answer to a question, as a piece of a document."""

    name: ClassVar[str] = "answer"
    fields: ClassVar[tuple[Field, ...]] = (
        Field("context", CONTEXT),
        Field("question", QUESTION),
        Field("answers", ANSWERS, kind="answers"),
        Field("impossible", IMPOSSIBLE, kind="flag", required=False),
    )
    head_kind: ClassVar[str] = "span"
    usual_length: ClassVar[int] = 384  # as in the first SQuAD runs; the rest comes by windows
    per_token: ClassVar[bool] = True
    metric: ClassVar[str] = "f1"

    stride: int = setting(128, "tokens that neighbouring windows of a long document share")
    question_limit: int = setting(64, "most tokens of a question (and at most half of a window)")
    longest: int = setting(0, "most tokens of an answer (0: 30, or 50 where answers are Chinese)")
    nowhere: Literal["first", "last"] = setting(
        "first",
        "the token that stands for no answer (last: a decoder's first one has seen nothing)",
    )
    no_answer: bool = setting(False, "questions may have no answer (seen in the training data)")

    def __post_init__(self) -> None:
        for name in ("stride", "longest"):
            if getattr(self, name) < 0:
                raise UserError(f"answer.{name} must not be negative, not {getattr(self, name)}")
        if self.question_limit < 1:
            raise UserError(f"answer.question_limit must be at least 1, not {self.question_limit}")

    def learn(self, rows: Sequence[Row]) -> Self:
        texts = (text for row in rows for text in gold(row))
        longest = self.longest or LONGEST[language_of(texts)]
        some = self.no_answer or any(not gold(row) for row in rows)
        return dataclasses.replace(self, longest=longest, no_answer=some)

    def suit(self, model: Checkpoint) -> Self:
        decoder = "causal" in family(model.family).HEADS
        return dataclasses.replace(self, nowhere="last") if decoder else self

    @property
    def outputs(self) -> int:
        return 2

    # ------------------------------------------------------------ examples

    def examples(
        self, rows: Sequence[Row], tokenizer: Tokenizer, limit: int, labelled: bool
    ) -> list[Example]:
        room = tokenizer.room(limit, pair=True)
        if room < 2:
            raise UserError(f"a limit of {limit} tokens leaves no room for question and document")
        questions = tokenizer.ids([row.values["question"] for row in rows], special=False)
        documents = read_documents([row.values["context"] for row in rows], tokenizer)
        around, _ = tokenizer.wrap([], [-1])
        lead = around.index(-1)  # special tokens before the document
        last = self.nowhere == "last" and around[-1] != -1
        found: list[Example] = []
        for number, row in enumerate(rows):
            ids, offsets = documents[row.values["context"]]
            span = span_of(row, offsets) if labelled else None
            if labelled and span is None:
                continue  # nothing to learn: the answer is not in the document
            question = questions[number][: min(self.question_limit, room // 2)]
            for begin, end in windows(len(ids), room - len(question), self.stride):
                part = Part(*tokenizer.wrap(question, ids[begin:end]))
                null = len(part.ids) - 1 if last else 0
                window = Window(lead + len(question), begin, end - begin, offsets, null)
                target = None if span is None else inside(window, span)
                found.append(Example(number, (part,), target, window))
        if rows and not found:
            raise UserError(
                f"{rows[0].file}: in no row does the answer stand in the context; look at the "
                "columns, or let `tianci check` list the faults"
            )
        return found

    def targets(self, examples: Sequence[Example], starts: NDArray[np.int64]) -> dict[str, Tensor]:
        return {"label": torch.tensor([e.target for e in examples], dtype=torch.int64)}

    def places(self, examples: Sequence[Example], starts: NDArray[np.int64]) -> dict[str, Tensor]:
        """`document`: where "not here" and the window stand, (B, 3); `readable`: both, as (T,)."""
        found = [
            (start + e.info.null, start + e.info.lead, e.info.size)
            for e, start in zip(examples, starts.tolist(), strict=True)
        ]
        readable = np.zeros(sum(e.length for e in examples), bool)
        for first, begin, size in found:
            readable[first] = readable[begin : begin + size] = True
        return {"document": torch.tensor(found), "readable": torch.from_numpy(readable)}

    # ------------------------------------------------------------ learning

    def loss(self, model: Model, heads: Heads, states: States, batch: Batch) -> Loss:
        said = self.head(heads)(states.layers, states.layout).float()
        said = said.masked_fill(~batch.targets["readable"][:, None], -torch.inf)
        table = states.layout.pad(said, -torch.inf)[batch.targets["place"]]  # (B, L, 2)
        right = batch.targets["label"]
        total = F.cross_entropy(table, right, reduction="sum") / 2  # beginning and end
        return Loss(total, torch.eq(table.argmax(1), right).all(1).sum())

    # ------------------------------------------------------------ answering

    def answers(self, heads: Heads, states: States, batch: Batch) -> list[Any]:
        said = self.head(heads)(states.layers, states.layout).float().cpu().numpy()
        longest = self.longest or LONGEST["en"]
        found: list[Any] = []
        for first, begin, size in batch.targets["document"].tolist():
            window = said[begin : begin + size]
            spans = best_spans(window[:, 0], window[:, 1], longest, KEPT)
            found.append(Said(spans, float(said[first].sum())))
        return found

    def join(self, examples: Sequence[Example], answers: Sequence[Any]) -> list[Any]:
        """The best spans of all windows, in characters; [CLS] counts where it is believed least."""
        both = zip(examples, answers, strict=True)
        joined: list[Any] = []
        for _, group in groupby(both, key=lambda one: one[0].row):
            several = list(group)
            spans = merge([in_text(e.info, said.spans) for e, said in several], KEPT)
            joined.append(Said(spans, min(said.null for _, said in several)))
        return joined

    def decide(self, rows: Sequence[Row], answers: Sequence[Any]) -> Decision:
        right = [gold(row) for row in rows]
        if all(right):
            return {}
        best = [row.values["context"][slice(*top_place(said))]
                for row, said in zip(rows, answers, strict=True)]  # fmt: skip
        scores = exact.score_rows(best, right)
        earned = np.where(scores.has_answer, scores.f1, 0.0)
        doubt = np.array([said.null - top_score(said) for said in answers])
        limit, _ = exact.best_no_answer_threshold(doubt, earned, scores.has_answer)
        # between two rows, not on one of them, where the last bit would decide
        below = doubt[doubt <= limit].max(initial=-np.inf)
        above = doubt[doubt > limit].min(initial=np.inf)
        if np.isinf(below) or np.isinf(above):  # no row is answered, or all
            return {"null_threshold": float(above - 1 if np.isinf(below) else below + 1)}
        return {"null_threshold": float(below + above) / 2}

    def limit_of(self, decision: Decision) -> float | None:
        """How much better than the best span "no answer" must be; None where it never is."""
        usual = 0.0 if self.no_answer else None
        found: float | None = decision.get("null_threshold", usual)
        return found

    def predict(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> list[dict[str, Any]]:
        limit = self.limit_of(decision)
        return [
            shown(row.values["context"], said, limit)
            for row, said in zip(rows, answers, strict=True)
        ]

    # ------------------------------------------------------------ judging

    def judged(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> tuple[list[dict[str, Any]], exact.Rows]:
        predicted = self.predict(rows, answers, decision)
        right = [gold(row) for row in rows]
        return predicted, exact.score_rows([one["answer"] for one in predicted], right)

    def scorer(self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision) -> Score:
        return exact.answer_score(self.judged(rows, answers, decision)[1])

    def details(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> dict[str, Any]:
        predicted, scores = self.judged(rows, answers, decision)
        sure = np.array([one["score"] for one in predicted])
        order = np.lexsort((-sure, scores.f1))[:30].tolist()  # the worst that it was surest of
        said = np.array([bool(one["answer"]) for one in predicted])
        return {
            "answered": {
                "with_answer": int((scores.has_answer & said).sum()),
                "without_answer": int((~scores.has_answer & said).sum()),
            },
            "errors": [
                {
                    "place": rows[n].place,
                    "question": rows[n].values["question"],
                    "context": around(rows[n], predicted[n]),
                    "label": gold(rows[n]),
                    "predicted": predicted[n]["answer"],
                    "score": float(sure[n]),
                    "f1": float(scores.f1[n]),
                }
                for n in order
                if scores.f1[n] < 1
            ],
        }

    def trouble(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> str | None:
        if len(rows) < 10:
            return None
        predicted, scores = self.judged(rows, answers, decision)
        if not scores.has_answer.any():
            return None
        if not any(one["answer"] for one in predicted):
            return f"it finds no answer in any of the {len(rows):,} dev rows"
        if not scores.f1[scores.has_answer].any():
            return f"none of its answers to {len(rows):,} dev rows shares a word with the right one"
        return None


# ---------------------------------------------------------------- rows and documents


def gold(row: Row) -> list[str]:
    """The right answers; none where there is none in the document."""
    if row.values.get("impossible"):
        return []
    return [answer["text"] for answer in row.values.get("answers", ()) if answer["text"]]


def span_of(row: Row, offsets: Offsets) -> tuple[int, int] | None:
    """The first and last token of the first answer that is in the document; (-1, -1): there is
    none to be found; None: there should be one, but it is not there."""
    if not gold(row):
        return -1, -1
    for answer in row.values["answers"]:
        place = locate(row.values["context"], answer["text"], answer["answer_start"])
        span = tokens_between(offsets, *place) if place else None
        if span is not None:
            return span
    return None


# ---------------------------------------------------------------- what people get


def top_place(said: Said) -> tuple[int, int]:
    """Begin and end of the best span, (0, 0) in a document without any."""
    return (0, 0) if not len(said.spans.places) else tuple(said.spans.places[0].tolist())


def top_score(said: Said) -> float:
    return float(said.spans.scores[0]) if len(said.spans.scores) else NOTHING


def shown(context: str, said: Said, limit: float | None) -> dict[str, Any]:
    """The answer, its place, its probability among the candidates, and the runners-up.

    Where there may be no answer, that is a candidate too, as much worse as the limit says: so the
    most probable candidate is the answer.
    """
    logits = said.spans.scores.astype(np.float64)
    null = NOTHING if limit is None else said.null - limit
    top = max(null, float(logits.max(initial=NOTHING)))
    total = np.exp(logits - top).sum() + np.exp(null - top)
    spans = [
        {"answer": context[begin:end], "start": begin, "end": end, "score": float(p)}
        for (begin, end), p in zip(
            said.spans.places[: OTHERS + 1].tolist(), np.exp(logits - top) / total, strict=False
        )
    ]
    silent = float(np.exp(null - top) / total)
    if not spans or (limit is not None and null > logits[0]):
        best = {"answer": "", "start": 0, "end": 0, "score": silent}
        result = {**best, "others": spans[:OTHERS]}
    else:
        result = {**spans[0], "others": spans[1:]}
    return result if limit is None else {**result, "no_answer": silent}


def around(row: Row, predicted: dict[str, Any], reach: int = 150) -> str:
    """The neighbourhood of the answer in its document."""
    context: str = row.values["context"]
    low, high = max(0, predicted["start"] - reach), predicted["end"] + reach
    return ("…" if low else "") + context[low:high] + ("…" if high < len(context) else "")


TASK = Answer
