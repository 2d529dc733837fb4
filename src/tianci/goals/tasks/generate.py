"""A text from a text, by whatever the family writes with.

- an encoder (masked head): [CLS] source [SEP] target [SEP], as in UniLM (2019): the source sees
  itself as a whole, the target sees the source and what stands to its left;
- a decoder (causal head): the same sequence, start source delimiter target end, as in GPT (2018);
- an encoder-decoder (generation head): the source in one half, the target in the other, as in T5.
Each target token is guessed from all before it. To write, the model's own tokens are fed back until
it says the end. With a task's name as `prefix` any task is text in, text out.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self, cast
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tianci.batch import Batch, Layout
from tianci.checkpoint import Checkpoint
from tianci.data.rows import Field, Row
from tianci.data.rows_fields import SOURCE, TARGET
from tianci.errors import UserError
from tianci.goals import decoding
from tianci.goals.base import Heads, Loss
from tianci.goals.decoding import Decoding
from tianci.goals.tasks.base import Decision, Example, Part, Task
from tianci.goals.writing import Allowed, By, next_scores, source_marks, writer_of
from tianci.metrics import texts
from tianci.metrics.score import Score
from tianci.models import family
from tianci.models.base import Model, States
from tianci.nn.heads import VocabularyHead
from tianci.settings import setting
from tianci.text.readable import readable
from tianci.text.tokenizer import Tokenizer


class Asked(NamedTuple):
    """What an example needs besides its ids."""

    source: int  # tokens of the source, with those around it
    tokenizer: Tokenizer


@dataclass(frozen=True)
class Generate(Decoding, Task):
    """The target of a source: a summary, a title, a translation."""

    name: ClassVar[str] = "generate"
    fields: ClassVar[tuple[Field, ...]] = (
        Field("source", SOURCE),
        Field("target", TARGET, required=False, kind="texts"),  # several are all right
    )
    per_token: ClassVar[bool] = True
    metric: ClassVar[str] = "rouge_l"

    prefix: str = setting("", 'a text before each source that names the task: "summarize: "')
    by: By = setting("", "the head that writes: masked, causal, generation (by family)")  # noqa: RUF009

    @property
    def head_kind(self) -> str:  # type: ignore[override]  # here it depends on the family
        return self.by or "masked"

    def suit(self, model: Checkpoint) -> Self:
        known = family(model.family).HEADS
        if self.by and self.by not in known:
            raise UserError(
                f"generate.by is {self.by}, but {model.family} has no such head; it has: "
                f"{', '.join(known)}"
            )
        return dataclasses.replace(self, by=self.by or writer_of(model))

    # ------------------------------------------------------------ examples

    def examples(
        self, rows: Sequence[Row], tokenizer: Tokenizer, limit: int, labelled: bool
    ) -> list[Example]:
        room = self._room(tokenizer, limit)
        sources = tokenizer.ids([self.prefix + row.values["source"] for row in rows], special=False)
        found: list[Example] = []
        for n, (row, ids) in enumerate(zip(rows, sources, strict=True)):
            source = self.source(ids[:room], tokenizer)
            info = Asked(len(source.ids), tokenizer)
            if not labelled:
                found.append(Example(n, (source,), info=info))
                continue
            for target in tokenizer.ids(_targets(row), special=False):
                # a target that was cut does not end here: the model must not learn that it does
                end = [] if len(target) > self.longest else [self.end(tokenizer)]
                said = [*target[: self.longest], *end]
                found.append(Example(n, (self._whole(source, said, tokenizer),), said, info))
        return found

    def _room(self, tokenizer: Tokenizer, limit: int) -> int:
        """Tokens of a source: the same whether its target is known or not."""
        if self.by == "generation":  # the halves share nothing
            room = limit - 1
            fits = room >= 1 and self.longest < limit
        else:
            room = tokenizer.room(limit, pair=True) - self.longest
            fits = room >= 1
        if not fits:
            raise UserError(
                f"targets of up to {self.longest} tokens leave no room for a source in {limit}; "
                "make generate.longest smaller, or --length larger"
            )
        return room

    def source(self, ids: list[int], tokenizer: Tokenizer) -> Part:
        """What is read before anything is written."""
        if self.by == "generation":
            return Part([*ids, self.end(tokenizer)], [0] * (len(ids) + 1))
        behind = len(target_marks(tokenizer))
        whole, segments = tokenizer.wrap(ids, [])
        return Part(whole[: len(whole) - behind], segments[: len(whole) - behind])

    def end(self, tokenizer: Tokenizer) -> int:
        """The token that ends a target."""
        if self.by == "generation":
            return source_marks(tokenizer)[1]
        return target_marks(tokenizer)[0]

    def segment(self, tokenizer: Tokenizer) -> int:
        """Of a target, where the family has segments."""
        return tokenizer.wrap([0], [0])[1][-1]

    def _whole(self, source: Part, target: list[int], tokenizer: Tokenizer) -> Part:
        if self.by == "generation":  # the target goes into the other half
            return source
        behind = [self.segment(tokenizer)] * len(target)
        return Part([*source.ids, *target], [*source.segments, *behind])

    def collate(self, examples: Sequence[Example]) -> Batch:
        batch = super().collate(examples)
        place = batch.targets["place"].tolist()
        if self.by == "generation":
            begin = source_marks(examples[0].info.tokenizer)[0]
            targets: list[list[int]] = [[] for _ in examples]
            for n, example in zip(place, examples, strict=True):
                targets[n] = [begin, *(example.target or [0])[:-1]]
            return dataclasses.replace(batch, decoder=Batch.of(targets))
        if self.by == "causal":
            return batch
        prefix = np.zeros(len(examples), np.int64)
        prefix[place] = [e.info.source for e in examples]
        layout = Layout(batch.layout.lengths, batch.layout.device, prefix.tolist())
        return dataclasses.replace(batch, layout=layout)

    def targets(self, examples: Sequence[Example], starts: NDArray[np.int64]) -> dict[str, Tensor]:
        firsts = self._first_places(examples, starts)
        at = [first + n for first, e in zip(firsts, examples, strict=True)
              for n in range(len(e.target))]  # fmt: skip
        said = [token for e in examples for token in e.target]
        return {
            "at": torch.tensor(at, dtype=torch.int64),
            "is": torch.tensor(said, dtype=torch.int64),
        }

    def _first_places(
        self, examples: Sequence[Example], starts: NDArray[np.int64]
    ) -> Sequence[int]:
        """The place that says the first token of each target: the last one of the source, or the
        begin of a target of its own half."""
        if self.by != "generation":
            return [s + e.info.source - 1 for s, e in zip(starts.tolist(), examples, strict=True)]
        # targets lie in the order of their sources
        order = np.argsort(starts, kind="stable")
        sizes = np.array([len(e.target) for e in examples], np.int64)[order]
        firsts = np.empty(len(examples), np.int64)
        firsts[order] = np.cumsum(sizes) - sizes
        found: list[int] = firsts.tolist()
        return found

    def places(self, examples: Sequence[Example], starts: NDArray[np.int64]) -> dict[str, Tensor]:
        tokenizer = examples[0].info.tokenizer
        allowed = Allowed.by(tokenizer, self.end(tokenizer))
        return {
            "end": torch.tensor(allowed.end),
            "barred": torch.tensor(allowed.barred, dtype=torch.int64),
            "known": torch.tensor(allowed.known),
            "segment": torch.tensor(self.segment(tokenizer) if self.by != "generation" else 0),
        }

    def count(self, batch: Batch) -> int:
        return len(batch.targets["is"])

    # ------------------------------------------------------------ learning and writing

    def loss(self, model: Model, heads: Heads, states: States, batch: Batch) -> Loss:
        # select, then multiply: only targets meet the vocabulary
        chosen, answers = states.last[batch.targets["at"]], batch.targets["is"]
        head = cast(VocabularyHead, self.head(heads))
        return Loss(*head.loss(chosen, model.token_table(), answers))

    def respond(self, model: Model, heads: Heads, batch: Batch) -> list[Any]:
        """What the model writes behind each source, as ids."""
        place = batch.targets["place"].tolist()
        barred: list[int] = batch.targets["barred"].tolist()
        end, known = int(batch.targets["end"]), int(batch.targets["known"])
        scores = next_scores(
            model, self.head(heads), batch, place, Allowed(end, tuple(barred), known), self,
            int(batch.targets["segment"]),
        )  # fmt: skip
        ids = torch.split(batch.tokens.cpu(), list(batch.layout.lengths))
        keys = [crc32(ids[n].numpy().tobytes()) for n in place]
        return list(decoding.write(scores, keys, end, self))

    def join(self, examples: Sequence[Example], answers: Sequence[Any]) -> list[Any]:
        return [
            {"text": readable(e.info.tokenizer.decode(a.ids)), "ids": list(a.ids)}
            for e, a in zip(examples, answers, strict=True)
        ]

    # ------------------------------------------------------------ judging

    def predict(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> list[dict[str, Any]]:
        return list(answers)

    def scorer(self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision) -> Score:
        return texts.text_score([a["text"] for a in answers], [_targets(row) for row in rows])

    def details(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> dict[str, Any]:
        """Texts beside their targets, the first ones."""
        return {
            "texts": [
                {
                    "place": row.place,
                    "source": row.values["source"],
                    "target": _targets(row)[0],
                    "predicted": answer["text"],
                }
                for row, answer in list(zip(rows, answers, strict=True))[:30]
            ]
        }

    def trouble(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> str | None:
        if len(rows) < 10:
            return None
        text, count = Counter(answer["text"] for answer in answers).most_common(1)[0]
        different = len({row.values["source"] for row in rows}) > 1
        if count < len(rows) or not different:
            return None
        return f'it writes "{text[:40]}" for all {len(rows):,} dev rows'


def target_marks(tokenizer: Tokenizer) -> list[int]:
    """The tokens behind the second text of a pair, of which the first one ends a target."""
    whole, _ = tokenizer.wrap([-1], [-2])
    if whole.index(-2) == whole.index(-1) + 1 or whole[-1] == -2:
        raise UserError(
            "this model's vocabulary has no token between two texts and none that could end a "
            "target; --task-tokens auto adds them"
        )
    return whole[whole.index(-2) + 1 :]


def _targets(row: Row) -> list[str]:
    found: list[str] = row.values.get("target") or []
    if not found:
        raise UserError(
            f"{row.place}: no target to learn or to compare with; name its column with "
            "--column target=NAME"
        )
    return found


TASK = Generate
