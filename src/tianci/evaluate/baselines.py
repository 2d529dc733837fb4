"""What something simple without a network answers, in the form of each task's own answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tianci.data.rows import Row
from tianci.data.tagged import sentence_of
from tianci.evaluate import overlap_baseline as overlap
from tianci.evaluate.baseline import fit_baseline
from tianci.evaluate.tag_baseline import fit_tag_baseline
from tianci.goals.tagged import spread
from tianci.goals.tasks.answer import Answer
from tianci.goals.tasks.base import Task
from tianci.goals.tasks.choose import Choose
from tianci.goals.tasks.classify import Classify
from tianci.goals.tasks.generate import Generate
from tianci.goals.tasks.regress import Regress
from tianci.goals.tasks.similar import Similar
from tianci.goals.tasks.tag import Tag

BAG = "bag of words"
NAMES: dict[type[Task], str] = {
    Classify: BAG,  # pairs too
    Regress: BAG,
    Tag: "linear tagger",
    Answer: "word overlap",
    Choose: "word overlap",
    Similar: "tf-idf cosine",
    Generate: "first words",
}


def baseline_name(task: Task) -> str:
    """What the simple system for a task is called."""
    return next((name for kind, name in NAMES.items() if isinstance(task, kind)), BAG)


def baseline_answers(
    task: Task, train: Sequence[Row], asked: Sequence[Row], seed: int
) -> list[Any] | None:
    """What the simple system answers, having seen the training rows; None for other tasks."""
    match task:
        case Tag():
            return tag_answers(task, train, asked)
        case Answer():
            return list(overlap.answer_by_overlap(train, asked))
        case Choose():
            return list(overlap.choose_by_overlap(train, asked, seed))
        case Similar():
            return list(overlap.vectors_by_words(train, asked))
        case Generate():
            return list(overlap.first_words(train, asked))
        case Classify() | Regress():
            return bag_answers(task, train, asked, seed)
    return None


def bag_answers(
    task: Classify | Regress, train: Sequence[Row], asked: Sequence[Row], seed: int
) -> list[Any]:
    """What a bag of words answers: logits of classes, or numbers."""
    texts = [[row.values["text"] for row in rows] for rows in (train, asked)]
    pairs: list[list[str] | None] = [None, None]
    if any("pair" in row.values for row in train):
        pairs = [[row.values.get("pair", "") for row in rows] for rows in (train, asked)]
    if isinstance(task, Regress):
        gold = np.array([row.values["number"] for row in train])
        fitted = fit_baseline(texts[0], gold, pairs[0], "number", seed)
        return list(fitted.values(texts[1], pairs[1])[:, None])
    kind = "many" if task.many else "classes"
    fitted = fit_baseline(texts[0], task.gold(train), pairs[0], kind, seed, len(task.labels))
    shown = np.clip(fitted.probabilities(texts[1], pairs[1]), 1e-9, 1 - 1e-9)
    return list(np.log(shown / (1 - shown)) if task.many else np.log(shown))


def tag_answers(task: Tag, train: Sequence[Row], asked: Sequence[Row]) -> list[Any]:
    """What a linear tagger answers."""
    sentences = [[sentence_of(row, task.unit) for row in rows] for rows in (train, asked)]
    known, wanted = (
        [[one.text[start:end] for start, end in one.spans] for one in some] for some in sentences
    )
    said = fit_tag_baseline(known, [task.gold(row) for row in train]).tags(wanted)
    return [
        spread(one, range(len(tags)), tags, [1.0] * len(tags))
        for one, tags in zip(sentences[1], said, strict=True)
    ]
