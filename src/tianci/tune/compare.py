"""Was pre-training worth it? The same labels for something simple without a network (a bag of words
where there are classes), for fresh weights, and for the pre-trained model, over several numbers of
labels."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from tianci.evaluate.baselines import BAG, baseline_answers, baseline_name
from tianci.metrics.interval import bootstrap_weighted
from tianci.tune.choose import Chosen
from tianci.tune.trial import run_trial
from tianci.tune.work import Work, free_memory, tell

COUNTS = (100, 500, 2000)
SCRATCH_RATE = 3.0  # fresh weights want larger steps than learned ones
SCRATCH, TUNED = "from scratch", "fine-tuned"


def compare(work: Work, chosen: Chosen, seed: int, folder: Path) -> dict[str, Any]:
    """Dev scores of the three systems for growing numbers of labels, and what they mean."""
    rows: list[dict[str, Any]] = []
    order = np.random.default_rng([seed, 12]).permutation(len(work.train)).tolist()
    everything = len(work.train)
    for count in [*(n for n in COUNTS if n < everything), everything]:
        train = [work.train[i] for i in sorted(order[:count])]
        part = dataclasses.replace(work, train=train)
        for system in (baseline_name(work.task), SCRATCH, TUNED):
            found = _measure(part, chosen, system, count == everything, seed, folder)
            if found is not None:
                rows.append({"labels": count, "system": system, **found})
                tell(work, f"{count:,} labels, {system}: {work.metric} {found['score']:.4f}")
    return {"metric": work.metric, "rows": rows, "sentence": sentence(rows, work.metric)}


def _measure(
    work: Work, chosen: Chosen, system: str, whole: bool, seed: int, folder: Path
) -> dict[str, Any] | None:
    """The dev score of one system, with its interval where the answers are at hand."""
    if system not in (SCRATCH, TUNED):
        answers = baseline_answers(work.task, work.train, work.dev, seed)
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


def sentence(rows: list[dict[str, Any]], metric: str) -> str:
    """Whether pre-training paid, in one sentence."""
    most = max(row["labels"] for row in rows)
    last = {row["system"]: row for row in rows if row["labels"] == most}
    tuned = last[TUNED]["score"]
    others = [system for system in last if system != TUNED]
    words = []
    for system in others:
        gap = tuned - last[system]["score"]
        side = "above" if gap > 0 else "below"
        words.append(f"{abs(gap):.4f} {side} {_called(system)} ({last[system]['score']:.4f})")
    rivals = [last[system]["score"] for system in others]
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
    if system == SCRATCH:
        return "the same model from scratch"
    return f"a {BAG}" if system == BAG else f"the {system} baseline"
