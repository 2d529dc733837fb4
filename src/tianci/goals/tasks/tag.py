"""A label for each word or character: entities, or parts of speech.

Entities are learned and answered as IOB2 whatever the files say (IOB1, BIOES): the tags are read as
entities, and these are written as B- and I-. The first piece of a word decides; a word that became
no token (control characters, blanks) is O, or inside the entity that goes on behind it.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from tianci.batch import Batch
from tianci.data.collate import by_budget
from tianci.data.rows import Field, Row
from tianci.data.rows_fields import TAGS, TEXT, WORDS
from tianci.data.tagged import sentence_of
from tianci.errors import UserError
from tianci.goals.base import Heads, Loss
from tianci.goals.tagged import OUTSIDE, forbidden, spread, worst
from tianci.goals.tasks.base import Decision, Example, Part, Task, index
from tianci.metrics import classification, entities
from tianci.metrics.score import FloatArray, Score
from tianci.metrics.tags import tag_score
from tianci.models.base import Model, States
from tianci.nn.crf import Chain, ChainField
from tianci.nn.task_heads import PlannedHead
from tianci.settings import setting
from tianci.text.aligned import NONE, Aligned, Sentence, align, windows
from tianci.text.tokenizer import Tokenizer

DECODED = 8192  # words that are decoded together


class Words(NamedTuple):
    """The words that an example decides: of which sentence, which of them, at which tokens."""

    sentence: Sentence
    numbers: list[int]
    at: list[int]


class Said(NamedTuple):
    """What a head says of some words (N, C), and the CRF over them where there is one."""

    emissions: NDArray[np.float32]
    chain: Chain | None


@dataclass(frozen=True)
class Tag(Task):
    """The labels of words."""

    name: ClassVar[str] = "tag"
    fields: ClassVar[tuple[Field, ...]] = (
        Field("words", WORDS, required=False, kind="words"),
        Field("text", TEXT, required=False),
        Field("tags", TAGS, kind="tags"),
    )
    head_kind: ClassVar[str] = "token"
    marked: ClassVar[bool] = False
    per_token: ClassVar[bool] = True

    unit: Literal["", "word", "character"] = setting(
        "", "what has a tag in texts that are not cut into words (default: as in the training data)"
    )
    decoding: Literal["", "valid", "each"] = setting(
        "",
        "valid: the best sequence in which every I- continues something; each: the best tag of "
        "each word, then repaired (default: valid for what tianci trained)",
    )

    @property
    def metric(self) -> str:  # type: ignore[override]  # here it depends on the labels
        return "f1" if self.marks_entities else "accuracy"

    @cached_property
    def marks_entities(self) -> bool:
        """Whether the labels are B-, I-, O and not parts of speech or the like."""
        return entities.is_bio(self.labels)

    def learn(self, rows: Sequence[Row]) -> Self:
        told = {tag for row in rows for tag in row.values["tags"]}
        if len(told) < 2:
            only = next(iter(told), "")
            raise UserError(
                f"{rows[0].file}: all words have the tag {only!r}; there is nothing to tell apart"
                if told
                else f"{rows[0].file}: no row has a word; there is nothing to learn"
            )
        # the task knows now what it is about, and so how to read tags
        task = dataclasses.replace(self, labels=tuple(sorted(told)))
        names = {tag for row in rows for tag in task.gold(row)}
        widths = (end - start for row in rows for start, end in sentence_of(row, self.unit).spans)
        return dataclasses.replace(
            self,
            labels=tuple(sorted(names, key=_order if task.marks_entities else None)),
            unit=self.unit or ("character" if all(width <= 1 for width in widths) else "word"),
            decoding=self.decoding or "valid",
        )

    def gold(self, row: Row) -> list[str]:
        """The right tags of a row as this task learns them: entities in IOB2."""
        tags: list[str] = row.values["tags"]
        if not self.marks_entities:
            return tags
        if not entities.is_bio({*tags, "B-"}):
            number = next(n for n, tag in enumerate(tags) if not entities.is_bio({tag, "B-"}))
            raise UserError(
                f'{row.place}: word {number + 1} has the tag "{tags[number]}", but the tags of '
                "this model are O, B-... and I-..."
            )
        return entities.repair(tags)

    # ------------------------------------------------------------ examples

    def examples(
        self, rows: Sequence[Row], tokenizer: Tokenizer, limit: int, labelled: bool
    ) -> list[Example]:
        room = tokenizer.room(limit)
        if room < 1:
            raise UserError(f"a limit of {limit} tokens leaves no room for words; use a larger one")
        sentences = [sentence_of(row, self.unit) for row in rows]
        found: list[Example] = []
        for n, (row, sentence, aligned) in enumerate(
            zip(rows, sentences, align(sentences, tokenizer), strict=True)
        ):
            target = self.target(row) if labelled else None
            some = list(self._windows(n, sentence, aligned, tokenizer, room, target))
            # a row without words teaches nothing, but must be answered
            found += [one for one in some if one.info.at] or ([] if labelled else some[:1])
        return found

    def _windows(
        self,
        row: int,
        sentence: Sentence,
        aligned: Aligned,
        tokenizer: Tokenizer,
        room: int,
        target: Sequence[int] | None,
    ) -> Iterator[Example]:
        """One example, or several that overlap where a sentence is too long."""
        before = tokenizer.wrap([NONE])[0].index(NONE)  # special tokens in front
        words = [word for word, place in enumerate(aligned.first) if place != NONE]
        places = [aligned.first[word] for word in words]
        for start, end, low, high in windows(places, len(aligned.ids), room):
            ids, segments = tokenizer.wrap(aligned.ids[start:end])
            if not ids:  # an empty text without special tokens, but a model must read something
                ids, segments = [tokenizer.pad or 0], [0]
            at = [place - start + before for place in places[low:high]]
            labels = None if target is None else [target[word] for word in words[low:high]]
            info = Words(sentence, words[low:high], at)
            yield Example(row, (Part(ids, segments),), labels, info)

    def target(self, row: Row) -> list[int]:
        known = index(self.labels)
        found = []
        for number, tag in enumerate(self.gold(row), 1):
            if tag not in known:
                raise UserError(
                    f'{row.place}: the tag "{tag}" (word {number}) does not occur in the training '
                    f"data (known: {', '.join(self.labels)})"
                )
            found.append(known[tag])
        return found

    def targets(self, examples: Sequence[Example], starts: NDArray[np.int64]) -> dict[str, Tensor]:
        return {"label": torch.tensor([label for e in examples for label in e.target])}

    def places(self, examples: Sequence[Example], starts: NDArray[np.int64]) -> dict[str, Tensor]:
        at = [
            start + place
            for example, start in zip(examples, starts[: len(examples)].tolist(), strict=True)
            for place in example.info.at
        ]
        counts = [len(example.info.at) for example in examples]
        return {"word_at": torch.tensor(at, dtype=torch.int64), "words": torch.tensor(counts)}

    # ------------------------------------------------------------ learning

    def logits(self, heads: Heads, states: States, batch: Batch) -> Tensor:
        """What the head says of each word, in the order of the words: (words, outputs)."""
        said: Tensor = self.head(heads)(states.layers, states.layout)
        return said[batch.targets["word_at"]]

    def field(self, heads: Heads) -> ChainField | None:
        """The CRF of the head, where it has one."""
        head = self.head(heads)
        return head.crf if isinstance(head, PlannedHead) else None

    def loss(self, model: Model, heads: Heads, states: States, batch: Batch) -> Loss:
        emissions, gold = self.logits(heads, states, batch).float(), batch.targets["label"]
        field = self.field(heads)
        if field is None:
            total = F.cross_entropy(emissions, gold, reduction="sum")
            return Loss(total, torch.eq(emissions.argmax(1), gold).sum())
        counts = batch.targets["words"].tolist()
        paths = field.decode(emissions.detach(), counts)
        said = torch.tensor([label for path in paths for label in path], device=gold.device)
        return Loss(field.loss(emissions, gold, counts), torch.eq(said, gold).sum())

    def answers(self, heads: Heads, states: States, batch: Batch) -> list[Any]:
        emissions = self.logits(heads, states, batch).float().cpu().numpy()
        field = self.field(heads)
        chain = None if field is None else Chain(*(p.detach().float().cpu() for p in field.chain))
        cuts = batch.targets["words"].cumsum(0)[:-1].tolist()
        return [Said(part, chain) for part in np.split(emissions, cuts)]

    # ------------------------------------------------------------ decoding

    def join(self, examples: Sequence[Example], answers: Sequence[Any]) -> list[Any]:
        rows = [
            list(row)
            for _, row in groupby(zip(examples, answers, strict=True), key=lambda pair: pair[0].row)
        ]
        emissions = [np.concatenate([said.emissions for _, said in row]) for row in rows]
        found: list[Any] = [None] * len(rows)
        for numbers in by_budget([len(one) for one in emissions], DECODED):
            said = torch.from_numpy(np.concatenate([emissions[n] for n in numbers]))
            lengths = [len(emissions[n]) for n in numbers]
            labels, shares = self._decode(said, lengths, answers[0].chain)
            parts = zip(numbers, labels, torch.split(shares, lengths), strict=True)
            for n, path, share in parts:
                words = [word for example, _ in rows[n] for word in example.info.numbers]
                sure = share[torch.arange(len(path)), path].tolist()
                tags = [self.labels[label] for label in path]
                if self.marks_entities:
                    tags = entities.repair(tags)
                found[n] = spread(rows[n][0][0].info.sentence, words, tags, sure)
        return found

    def _decode(
        self, emissions: Tensor, lengths: Sequence[int], chain: Chain | None
    ) -> tuple[list[list[int]], Tensor]:
        """The labels of all words, and how probable each label is."""
        rules = Chain.free(len(self.labels)) if chain is None else chain
        if self.decoding == "valid" and self.marks_entities:
            rules = rules.barring(forbidden(self.labels))
        shares = emissions.softmax(1) if chain is None else rules.marginals(emissions, lengths)
        return rules.best(emissions, lengths), shares

    # ------------------------------------------------------------ judging

    def predict(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> list[dict[str, Any]]:
        return [
            {
                "entities": [answer.entity(span) for span in self._spans(answer.tags)],
                "text": answer.sentence.text,
                "words": answer.words,
                "tags": answer.tags,
            }
            for answer in answers
        ]

    def _spans(self, tags: Sequence[str]) -> list[entities.Span]:
        """Entities, or each word that has a tag."""
        if self.marks_entities:
            return entities.spans(tags)
        return [(tag, at, at + 1) for at, tag in enumerate(tags) if tag != OUTSIDE]

    def scorer(self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision) -> Score:
        said = [answer.tags for answer in answers]
        if not self.marks_entities:
            return tag_score([self.gold(row) for row in rows], said)
        gold = [self._told(row) for row in rows]
        usual = entities.entity_score(gold, said)
        strict = entities.entity_score(gold, said, strict=True)

        def weighted(weights: FloatArray) -> dict[str, FloatArray]:
            return {**usual(weights), "strict_f1": strict(weights)["f1"]}

        return weighted

    def _told(self, row: Row) -> list[str]:
        """The tags as the file has them, so that scores are those of seqeval on that file; only
        E- and S-, which strict scores do not know, are written as I- and B-."""
        gold, told = self.gold(row), row.values["tags"]
        return list(told) if all(tag[0] in "BIO" for tag in told) else gold

    def details(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> dict[str, Any]:
        gold, said = [self.gold(row) for row in rows], [answer.tags for answer in answers]
        there, here = ([self._spans(tags) for tags in side] for side in (gold, said))
        counts = Counter(span[0] for spans in there for span in spans)
        found = {
            "label_counts": dict(sorted(counts.items())),
            "errors": worst(rows, there, here, answers),
        }
        if self.marks_entities:
            return {"types": entities.entity_scores(gold, said)["types"], **found}
        names = sorted({tag for tags in (*gold, *said) for tag in tags})
        number = index(names)
        truth, guess = ([number[tag] for tags in side for tag in tags] for side in (gold, said))
        table = classification.class_table(truth, guess, names)
        return {
            "types": {one.pop("name"): one for one in table},
            "labels": names,
            "confusion": classification.confusion(truth, guess, len(names)).tolist(),
            **found,
        }

    def trouble(
        self, rows: Sequence[Row], answers: Sequence[Any], decision: Decision
    ) -> str | None:
        said = {tag for answer in answers for tag in answer.tags}
        there = {tag for row in rows for tag in row.values["tags"]}
        if len(rows) < 10 or len(there) < 2:
            return None
        if len(said) > 1:
            if self.marks_entities and self.score(rows, answers, decision)["f1"] == 0:
                return f"none of the entities that it finds in {len(rows):,} dev rows is right"
            return None
        if self.marks_entities:
            return f"it finds no entity in {len(rows):,} dev rows"
        return f'it says "{next(iter(said))}" for all words of {len(rows):,} dev rows'


def _order(tag: str) -> tuple[bool, str, str]:
    """O, then the types, B- before I-."""
    return tag != OUTSIDE, tag[2:], tag


TASK = Tag
