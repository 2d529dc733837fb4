"""What every cell of the matrix does with a family: it works, or the product says why not."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.matrix.families import Place, rows
from tests.train.test_families import stopped_at
from tianci import checkpoint
from tianci.batch import Batch
from tianci.checkpoint import Checkpoint
from tianci.evaluate import tasks
from tianci.evaluate.objectives import evaluate_objectives
from tianci.evaluate.perplexity import evaluate_perplexity
from tianci.evaluate.tasks import answer, reading_limit
from tianci.goals.tasks import make_task
from tianci.goals.tasks.base import Task
from tianci.models import family as module_of
from tianci.nn import adapter
from tianci.serve.predictor import load
from tianci.serve.ranking import rank
from tianci.train.pretrain import pretrain
from tianci.tune.settings import Finetune
from tianci.tune.trial import run_trial
from tianci.tune.work import Work

Cell = Callable[[Place, str, Path], None]
CELLS: dict[str, Cell] = {}
SETTINGS = {"generate": {"longest": 4}, "similar": {"how": "pairs"}}


def cell(name: str) -> Callable[[Cell], Cell]:
    def keep(made: Cell) -> Cell:
        CELLS[name] = made
        return made

    return keep


# ---------------------------------------------------------------- pre-training


@cell("pretrain, its own objective")
def pretrained(place: Place, family: str, folder: Path) -> None:
    saved = checkpoint.read(place.base(family))
    assert saved.about["provenance"]["steps"] == 4
    assert all(p.isfinite().all() for p in saved.model.parameters())


@cell("resume, bit-equal")
def resumed(place: Place, family: str, folder: Path) -> None:
    stopped_at(2, place.base(family), folder / "again")
    pretrain({}, quiet=True, resume=str(folder / "again"))
    one, two = (p / "model.safetensors" for p in (place.base(family), folder / "again"))
    assert one.read_bytes() == two.read_bytes()


def _objective(name: str) -> Cell:
    def run(place: Place, family: str, folder: Path) -> None:
        found = place.pretrain(family, name, folder / "run")
        assert math.isfinite(found["held"][name]["loss"])
        if name == "prefix":  # which head writes is found without being told
            measured = evaluate_objectives(folder / "run", place.store, tokens=200, length=32)
            assert math.isfinite(measured["prefix_loss"])

    return run


for _name in ("masked", "causal", "span", "prefix"):
    CELLS[f"objective {_name}"] = _objective(_name)


# ---------------------------------------------------------------- tasks


def tuned(
    place: Place,
    family: str,
    folder: Path,
    name: str,
    told: dict[str, Any] | None = None,
    **more: Any,
) -> tuple[Task, Checkpoint]:
    """Two steps of a task, as a fine-tuning run does them."""
    base = checkpoint.read(place.base(family))
    task = make_task(name, {**SETTINGS.get(name, {}), **(told or {})}).suit(base)
    train, dev = rows(name, 12, 0), rows(name, 6, 1)
    task = task.learn([*train, *dev])
    given = {"steps": 2, "batch": 6, "precision": "float32", **more}
    settings = Finetune(model=str(place.base(family)), **given)
    limit = reading_limit(base, task)
    work = Work(settings, task, train, dev, limit, quiet=True)
    result = run_trial(work, lr=1e-2, seed=0, folder=folder / "run")
    assert result.steps == given["steps"] and result.history
    return task, checkpoint.read(folder / "run" / "best")


def same_answers(one: Any, other: Any, atol: float) -> None:
    """Whatever the answers of a task are made of."""
    if isinstance(one, np.ndarray | float):
        np.testing.assert_allclose(one, other, atol=atol, rtol=0)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            same_answers(one[key], other[key], atol)
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same_answers(a, b, atol)
    else:
        assert one == other


def _task(name: str, told: dict[str, Any] | None = None) -> Cell:
    def run(place: Place, family: str, folder: Path) -> None:
        task, saved = tuned(place, family, folder, name, told)
        found = load(folder / "run" / "best").predict(rows(name, 5, 2))
        assert len(found) == 5
        # whatever stands beside a row, its answer is the same
        limit, some = reading_limit(saved, task), rows(name, 5, 2)
        together = answer(saved, task, some, limit)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tasks, "BATCH_TOKENS", 1)
            alone = answer(saved, task, some[::-1], limit)[::-1]
        same_answers(together, alone, 1e-5)

    return run


for _name in ("classify", "pair", "regress", "tag", "answer", "choose", "similar", "generate"):
    CELLS[_name] = _task(_name)
CELLS["pair, both orders"] = _task("pair", {"symmetric": True})


# ---------------------------------------------------------------- ways to tune


@cell("adapters")
def adapters(place: Place, family: str, folder: Path) -> None:
    _, saved = tuned(place, family, folder, "classify", strategy="adapters", adapter_size=4)
    before = checkpoint.read(place.base(family)).model.state_dict()
    after = saved.model.state_dict()
    assert any(adapter.is_adapter(name) for name in after)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed and all("norm" in name for name in changed)


@cell("layer-wise rates")
def layer_rates(place: Place, family: str, folder: Path) -> None:
    base = checkpoint.read(place.base(family)).model
    _, saved = tuned(
        place, family, folder, "tag", layer_rates=0.5, steps=1, warmup=0.0, weight_decay=0.0,
        dropout=0.0,
    )  # fmt: skip
    moved = []
    for old, new in zip(base.depth(), saved.model.depth(), strict=True):
        pairs = zip(old.parameters(), new.parameters(), strict=True)
        moved.append(max((a - b).abs().max().item() for a, b in pairs))
    moved = [size for size in moved if size]  # tags ask nothing of T5's decoder
    assert len(moved) == len(base.depth()) - (2 if family == "t5" else 0)
    # Adam's first step is the rate itself, whatever the gradient
    for lower, upper in pairwise(moved):
        assert upper / lower == pytest.approx(2, rel=0.02)


@cell("language model beside a task")
def language(place: Place, family: str, folder: Path) -> None:
    _, saved = tuned(place, family, folder, "classify", language=0.5)
    assert {"masked", "causal"} & set(saved.heads)


# ---------------------------------------------------------------- files


@cell("save, load")
def saved_and_loaded(place: Place, family: str, folder: Path) -> None:
    task, saved = tuned(place, family, folder, "classify")
    checkpoint.write(folder / "two", saved)
    one, two = (p / "model.safetensors" for p in (folder / "run" / "best", folder / "two"))
    assert one.read_bytes() == two.read_bytes()
    again = checkpoint.read(folder / "two")
    some = rows("classify", 5, 2)
    same_answers(answer(saved, task, some, 64), answer(again, task, some, 64), 0.0)


@cell("load in transformers")
def in_transformers(place: Place, family: str, folder: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="parity needs the dev extra")
    saved = checkpoint.read(place.base(family))
    theirs, report = getattr(transformers, saved.architecture).from_pretrained(
        place.base(family), output_loading_info=True
    )
    assert not any(report.values()), report
    assert saved.tokenizer is not None
    (ids,) = saved.tokenizer.ids(["我今天去公园读书。"])
    batch, more = Batch.of([ids]), {}
    if family == "t5":
        batch = dataclasses.replace(batch, decoder=Batch.of([ids[:4]]))
        more = {"decoder_input_ids": torch.tensor([ids[:4]])}
    with torch.inference_mode():
        head = saved.heads[next(n for n in ("masked", "causal", "generation") if n in saved.heads)]
        ours = head(saved.model(batch).last, saved.model.token_table())
        found = theirs.eval()(torch.tensor([ids]), **more)
    logits = found.prediction_logits if "prediction_logits" in found else found.logits
    torch.testing.assert_close(ours, logits[0], atol=1e-5, rtol=0)


@cell("batch invariance")
def neighbours(place: Place, family: str, folder: Path) -> None:
    saved = checkpoint.read(place.base(family))
    assert saved.tokenizer is not None
    texts = saved.tokenizer.ids(["我今天去公园读书", "书", "今天去公园", "今天去学校", "我"])

    def states(rows: list[list[int]]) -> list[torch.Tensor]:
        batch = Batch.of(rows)
        if family == "t5":
            batch = dataclasses.replace(batch, decoder=Batch.of([row[:-1] for row in rows]))
        layout = (batch.decoder or batch).layout
        return list(saved.model(batch).last.split(list(layout.lengths)))

    with torch.inference_mode():
        together, turned = states(texts), states(texts[::-1])[::-1]
        for text, one, other in zip(texts, together, turned, strict=True):
            torch.testing.assert_close(one, states([text])[0], atol=1e-5, rtol=0)
            torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


# ---------------------------------------------------------------- without a task


@cell("fill a mask")
def fill(place: Place, family: str, folder: Path) -> None:
    (found,) = load(place.base(family)).fill("我今天去[MASK]园", top=3)
    assert len(found) == 3 and found[0]["score"] >= found[1]["score"] >= found[2]["score"]


@cell("score a text")
def score(place: Place, family: str, folder: Path) -> None:
    found = load(place.base(family)).score("我今天去公园")
    assert found["score"] < 0 and len(found["token_scores"]) == 6


@cell("perplexity from left to right")
def perplexity(place: Place, family: str, folder: Path) -> None:
    found = evaluate_perplexity(place.base(family), place.folder / "text.txt", length=32)
    assert math.isfinite(found["bits_per_byte"])


@cell("write on without a task")
def write_on(place: Place, family: str, folder: Path) -> None:
    texts = ["我今天", "今天去公园", "我"]
    for how in ({"temperature": 0.0}, {"beams": 2}, {"temperature": 1.0, "seed": 1}):
        together = load(place.base(family)).generate(texts, longest=4, **how)
        assert [load(place.base(family)).generate(t, longest=4, **how) for t in texts] == together


@cell("rank continuations")
def ranked(place: Place, family: str, folder: Path) -> None:
    found = rank(load(place.base(family)), "我今天去", ["公园", "学校", "书"])
    assert math.fsum(one["share"] for one in found) == pytest.approx(1)


@cell("embed a text")
def embed(place: Place, family: str, folder: Path) -> None:
    model = load(place.base(family))
    both = model.embed(["我今天去公园", "书"])
    assert both.shape == (2, 16)
    np.testing.assert_allclose(model.embed("书"), both[1], atol=1e-5, rtol=0)


def heads(family: str) -> dict[str, str]:
    """The class that transformers has for each task of a family."""
    known = module_of(family).PUBLIC.architectures
    kinds = {"classify, pair, regress": "sequence", "tag": "token", "answer": "span",
             "choose": "choice"}  # fmt: skip
    return {task: known.get(frozenset({kind}), "") for task, kind in kinds.items()}
