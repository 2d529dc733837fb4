"""Fine-tuning, step by step beside transformers: the same rows, weights, rates and optimizer come
to the same losses. Quality on real sets differs by dice only (dropout, order, first head)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.matrix.families import Place, rows
from tests.parity.family import loud
from tianci import checkpoint
from tianci.goals.tasks import make_task
from tianci.tune.rows_source import RowsSource
from tianci.tune.settings import Finetune
from tianci.tune.start import begin
from tianci.tune.trial import run_trial
from tianci.tune.work import Work

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
TASKS = ("classify", "pair", "regress", "tag", "answer", "choose")
RATE, SEED, BATCH, LENGTH, STEPS = 1e-2, 3, 6, 40, 14
RELATIVE = 2e-4  # float32, 14 steps


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("matrix"))


@pytest.mark.parametrize("name", TASKS)
def test_losses_of_every_step(
    name: str, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = checkpoint.read(place.base("bert"))
    loud(base.model, 1)
    checkpoint.write(tmp_path / "base", base)
    settings = Finetune(
        model=str(tmp_path / "base"), steps=STEPS, batch=BATCH, length=LENGTH, patience=0,
        dropout=0.0, log_every=1, weight_decay=0.1, clip=0.5,
    )  # fmt: skip
    train, dev = rows(name, 30, 0), rows(name, 6, 1)
    task = make_task(name).learn([*train, *dev])
    first = begin(settings, task, SEED, None)
    task = task.suit(first)
    checkpoint.write(tmp_path / "first", first)
    work = Work(settings, task, train, dev, LENGTH, quiet=True)
    run_trial(work, RATE, SEED, tmp_path / "run")
    lines = (tmp_path / "run" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    steps = [e for e in map(json.loads, lines) if e["event"] == "step"]
    assert len(steps) == STEPS

    monkeypatch.syspath_prepend(BENCHMARKS)
    import quality  # type: ignore[import-not-found]

    tokenizer = first.tokenizer
    assert tokenizer is not None
    examples = task.examples(train, tokenizer, LENGTH, labelled=True)
    source = RowsSource(task, examples, BATCH, SEED)
    plan = [numbers for epoch in range(STEPS) for numbers in source.plan(epoch)][:STEPS]
    drawn = [[examples[n] for n in numbers.tolist()] for numbers in plan]
    batches = [quality.padded(name, some) for some in drawn]
    if name == "answer":
        for batch, some in zip(batches, drawn, strict=True):
            batch["readable"] = readable(batch, some)
    kind = quality.CLASSES[name]
    options = {} if name in ("answer", "choose") else {"num_labels": task.outputs}
    theirs = peer_losses(kind, tmp_path / "first", options, batches, steps)
    assert [step["loss"] for step in steps] == pytest.approx(theirs, rel=RELATIVE)
    # learned something, so that a wrong step would be seen in the next loss
    still = peer_losses(kind, tmp_path / "first", options, batches, [{"lr": 0.0}] * STEPS)
    assert max(abs(a / b - 1) for a, b in zip(still, theirs, strict=True)) > 10 * RELATIVE


def readable(batch: dict[str, Any], examples: list[Any]) -> torch.Tensor:
    """Where an answer may begin or end: in the document, or nowhere. (transformers would let it
    begin in the question.)"""
    may = torch.zeros_like(batch["input_ids"], dtype=torch.bool)
    for row, example in enumerate(examples):
        may[row, 0] = True
        may[row, example.info.lead : example.info.lead + example.info.size] = True
    return may


def loss_of(net: torch.nn.Module, batch: dict[str, Any]) -> torch.Tensor:
    if (may := batch.get("readable")) is None:
        found: torch.Tensor = net(**batch).loss
        return found
    said = net(**{k: v for k, v in batch.items() if k != "readable"})
    ends = ((said.start_logits, "start_positions"), (said.end_logits, "end_positions"))
    return sum(
        F.cross_entropy(logits.masked_fill(~may, -torch.inf), batch[right]) / 2
        for logits, right in ends
    )  # type: ignore[return-value]


def peer_losses(
    kind: str,
    folder: Path,
    options: dict[str, int],
    batches: list[dict[str, Any]],
    steps: list[dict[str, Any]],
) -> list[float]:
    import transformers

    quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    net = getattr(transformers, kind).from_pretrained(folder, **quiet, **options).train()
    decayed = {n for n, p in net.named_parameters() if p.dim() > 1}
    groups = [
        {"params": [p for n, p in net.named_parameters() if (n in decayed) == decays],
         "weight_decay": 0.1 * decays}
        for decays in (True, False)
    ]  # fmt: skip
    adam = torch.optim.AdamW(groups, lr=RATE)
    losses = []
    for batch, step in zip(batches, steps, strict=True):
        loss = loss_of(net, batch)
        losses.append(loss.item())
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        for group in adam.param_groups:
            group["lr"] = step["lr"]
        adam.step()
    return losses
