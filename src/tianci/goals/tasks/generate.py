"""A text from a text, by an encoder: [CLS] source [SEP] target [SEP], as in UniLM (2019).

The source sees itself as a whole, the target sees the source and what stands to its left, so each
target token is guessed from all before it. To write, the model's own tokens are fed back behind the
source until it says [SEP]. The head is the family's masked-language-model head.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tianci.batch import Batch, Layout
from tianci.data.rows import Field, Row
from tianci.data.rows_fields import SOURCE, TARGET
from tianci.errors import UserError
from tianci.goals import decoding
from tianci.goals.base import Heads, Loss
from tianci.goals.decoding import Decoding, Live, log_probabilities
from tianci.goals.tasks.base import Decision, Example, Part, Task
from tianci.metrics import texts
from tianci.metrics.score import Score
from tianci.models.base import Model, States
from tianci.nn.heads import VocabularyHead
from tianci.nn.past import Following, Past, Recording
from tianci.text.readable import readable
from tianci.text.tokenizer import Tokenizer


class Asked(NamedTuple):
    """What an example needs besides its ids."""

    source: int  # tokens of the source, with [CLS] and [SEP]
    tokenizer: Tokenizer


@dataclass(frozen=True)
class Generate(Decoding, Task):
    """The target of a source: a summary, a title, a translation."""

    name: ClassVar[str] = "generate"
    fields: ClassVar[tuple[Field, ...]] = (
        Field("source", SOURCE),
        Field("target", TARGET, required=False, kind="texts"),  # several are all right
    )
    head_kind: ClassVar[str] = "masked"
    per_token: ClassVar[bool] = True
    metric: ClassVar[str] = "rouge_l"

    # ------------------------------------------------------------ examples

    def examples(
        self, rows: Sequence[Row], tokenizer: Tokenizer, limit: int, labelled: bool
    ) -> list[Example]:
        # the same room for the source whether its target is known or not
        room = tokenizer.room(limit, pair=True) - self.longest
        if room < 1:
            raise UserError(
                f"targets of up to {self.longest} tokens leave no room for a source in {limit}; "
                "make generate.longest smaller, or --length larger"
            )
        sources = tokenizer.ids([row.values["source"] for row in rows], special=False)
        found: list[Example] = []
        for n, (row, ids) in enumerate(zip(rows, sources, strict=True)):
            whole, segments = tokenizer.wrap(ids[:room], [])
            if tokenizer.sep is None or whole[-1] != tokenizer.sep:
                raise UserError("this model's vocabulary has no [SEP] that could end a target")
            source = Part(whole[:-1], segments[:-1])
            info = Asked(len(source.ids), tokenizer)
            if not labelled:
                found.append(Example(n, (source,), info=info))
                continue
            for target in tokenizer.ids(_targets(row), special=False):
                # a target that was cut does not end here: the model must not learn that it does
                kept = target[: self.longest]
                ids_, segments_ = tokenizer.wrap(ids[:room], kept)
                cut = len(target) > self.longest
                part = Part(ids_[:-1], segments_[:-1]) if cut else Part(ids_, segments_)
                found.append(Example(n, (part,), target=part.ids[info.source :], info=info))
        return found

    def collate(self, examples: Sequence[Example]) -> Batch:
        batch = super().collate(examples)
        prefix = np.zeros(len(examples), np.int64)
        prefix[batch.targets["place"].numpy()] = [e.info.source for e in examples]
        layout = Layout(batch.layout.lengths, batch.layout.device, prefix.tolist())
        return dataclasses.replace(batch, layout=layout)

    def targets(self, examples: Sequence[Example], starts: NDArray[np.int64]) -> dict[str, Tensor]:
        # each token is said by the place before it; the first one by the source's [SEP]
        at = [
            start + e.info.source - 1 + n
            for start, e in zip(starts.tolist(), examples, strict=True)
            for n in range(len(e.target))
        ]
        said = [token for e in examples for token in e.target]
        return {
            "at": torch.tensor(at, dtype=torch.int64),
            "is": torch.tensor(said, dtype=torch.int64),
        }

    def places(self, examples: Sequence[Example], starts: NDArray[np.int64]) -> dict[str, Tensor]:
        tokenizer = examples[0].info.tokenizer
        return {
            "end": torch.tensor(tokenizer.sep),
            "barred": torch.tensor(sorted(tokenizer.special_ids - {tokenizer.sep})),
            "known": torch.tensor(len(tokenizer)),
            "segment": torch.tensor(tokenizer.wrap([0], [0])[1][-2]),  # of a target
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
        past = Past(batch.layout.longest + self.longest)
        first = model(dataclasses.replace(batch, layout=Recording(batch.layout, past)))
        place = batch.targets["place"].tolist()
        head, second = self.head(heads), batch.targets["segment"]
        barred, known = batch.targets["barred"], int(batch.targets["known"])

        def next_scores(live: Sequence[Live]) -> Tensor:
            if live[0].ids:
                past.choose([one.parent for one in live])
                written = torch.tensor([one.ids[-1] for one in live], device=second.device)
                more = Batch(written, Following(past), second.expand(len(live)))
                last = model(more).last
            else:  # the source's own last token says the first one
                past.choose(place)
                last = first.last[batch.layout.last()[place]]
            logits: Tensor = head(last, model.token_table()).float()
            logits[:, barred] = -torch.inf
            logits[:, known:] = -torch.inf  # rows of the table that no token has
            return log_probabilities(logits, [one.ids for one in live], self)

        ids = torch.split(batch.tokens.cpu(), list(batch.layout.lengths))
        keys = [crc32(ids[n].numpy().tobytes()) for n in place]
        return list(decoding.write(next_scores, keys, int(batch.targets["end"]), self))

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


def _targets(row: Row) -> list[str]:
    found: list[str] = row.values.get("target") or []
    if not found:
        raise UserError(
            f"{row.place}: no target to learn or to compare with; name its column with "
            "--column target=NAME"
        )
    return found


TASK = Generate
