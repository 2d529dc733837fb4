"""Was pre-training worth it? The same labels for a bag of words, for fresh weights, and for the
pre-trained model, over several numbers of labels."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tianci.data.rows import Row
from tianci.data.tagged import sentence_of
from tianci.evaluate.baseline import fit_baseline
from tianci.evaluate.tag_baseline import fit_tag_baseline
from tianci.goals.tagged import spread
from tianci.goals.tasks.base import Task
from tianci.goals.tasks.classify import Classify
from tianci.goals.tasks.regress import Regress
from tianci.goals.tasks.tag import Tag
from tianci.metrics.interval import bootstrap_weighted
from tianci.tune.choose import Chosen
from tianci.tune.trial import Work, free_memory, run_trial, tell

COUNTS = (100, 500, 2000)
SCRATCH_RATE = 3.0  # fresh weights want larger steps than learned ones
BAG, SCRATCH, TUNED = "bag of words", "from scratch", "fine-tuned"


def compare(work: Work, chosen: Chosen, seed: int, folder: Path) -> dict[str, Any]:
    """Dev scores of the three systems for growing numbers of labels, and what they mean."""
    rows: list[dict[str, Any]] = []
    order = np.random.default_rng([seed, 12]).permutation(len(work.train)).tolist()
    everything = len(work.train)
    for count in [*(n for n in COUNTS if n < everything), everything]:
        train = [work.train[i] for i in sorted(order[:count])]
        part = dataclasses.replace(work, train=train)
        for system in (BAG, SCRATCH, TUNED):
            found = _measure(part, chosen, system, count == everything, seed, folder)
            if found is not None:
                rows.append({"labels": count, "system": system, **found})
                tell(work, f"{count:,} labels, {system}: {work.metric} {found['score']:.4f}")
    return {"metric": work.metric, "rows": rows, "sentence": sentence(rows, work.metric)}


def _measure(
    work: Work, chosen: Chosen, system: str, whole: bool, seed: int, folder: Path
) -> dict[str, Any] | None:
    """The dev score of one system, with its interval where the answers are at hand."""
    if system == BAG:
        answers = bag_answers(work.task, work.train, work.dev, seed)
        if answers is None:
            return None
        decision = work.task.decide(work.dev, answers)
        score = work.task.scorer(work.dev, answers, decision)
        value = work.task.score(work.dev, answers, decision)[work.metric]
        low, high = bootstrap_weighted(score, len(work.dev))[work.metric]
        return {"score": value, "low": low, "high": high}
    if system == TUNED and whole:
        return {"score": chosen.best.score}
    rate = chosen.best.lr * (SCRATCH_RATE if system == SCRATCH else 1.0)
    trial = dataclasses.replace(work, scratch=system == SCRATCH)
    place = folder / f"{system.replace(' ', '-')}-{len(work.train)}"
    result = run_trial(trial, rate, seed, place)
    free_memory()
    return {"score": result.score}


def bag_answers(
    task: Task, train: Sequence[Row], dev: Sequence[Row], seed: int
) -> list[Any] | None:
    """What a bag of words answers, in the form of the task's own answers; None for other tasks."""
    if isinstance(task, Tag):
        return tag_answers(task, train, dev)
    if not isinstance(task, Classify | Regress):
        return None
    texts = [[row.values["text"] for row in rows] for rows in (train, dev)]
    pairs: list[list[str] | None] = [None, None]
    if any("pair" in row.values for row in train):
        pairs = [[row.values.get("pair", "") for row in rows] for rows in (train, dev)]
    if isinstance(task, Regress):
        gold = np.array([row.values["number"] for row in train])
        fitted = fit_baseline(texts[0], gold, pairs[0], "number", seed)
        return list(fitted.values(texts[1], pairs[1])[:, None])
    kind = "many" if task.many else "classes"
    fitted = fit_baseline(texts[0], task.gold(train), pairs[0], kind, seed, len(task.labels))
    shown = np.clip(fitted.probabilities(texts[1], pairs[1]), 1e-9, 1 - 1e-9)
    return list(np.log(shown / (1 - shown)) if task.many else np.log(shown))


def tag_answers(task: Tag, train: Sequence[Row], dev: Sequence[Row]) -> list[Any]:
    """What a linear tagger answers."""
    sentences = [[sentence_of(row, task.unit) for row in rows] for rows in (train, dev)]
    known, asked = (
        [[one.text[start:end] for start, end in one.spans] for one in some] for some in sentences
    )
    said = fit_tag_baseline(known, [task.gold(row) for row in train]).tags(asked)
    return [
        spread(one, range(len(tags)), tags, [1.0] * len(tags))
        for one, tags in zip(sentences[1], said, strict=True)
    ]


def sentence(rows: list[dict[str, Any]], metric: str) -> str:
    """Whether pre-training paid, in one sentence."""
    most = max(row["labels"] for row in rows)
    last = {row["system"]: row for row in rows if row["labels"] == most}
    tuned = last[TUNED]["score"]
    words = []
    for system in (BAG, SCRATCH):
        if system in last:
            gap = tuned - last[system]["score"]
            side = "above" if gap > 0 else "below"
            words.append(f"{abs(gap):.4f} {side} {_called(system)} ({last[system]['score']:.4f})")
    rivals = [last[s]["score"] for s in (BAG, SCRATCH) if s in last]
    paid = tuned > max(rivals, default=float("-inf"))
    verdict = "Pre-training paid" if paid else "Pre-training did not pay"
    text = f"{verdict}: with all {most:,} labels the {metric} {tuned:.4f} is {', and '.join(words)}"
    if paid:
        return text + _equal_with_less(rows, max(rivals, default=0.0), most)
    return text


def _equal_with_less(rows: list[dict[str, Any]], rival: float, most: int) -> str:
    enough = [r["labels"] for r in rows if r["system"] == TUNED and r["score"] >= rival]
    if not enough or min(enough) == most:
        return ""
    return f"; it needs only {min(enough):,} labels to reach what the others reach with {most:,}"


def _called(system: str) -> str:
    return "a bag of words" if system == BAG else "the same model from scratch"
