"""A very small BERT with the head of a task, and a loop that teaches it a toy set in seconds."""

from __future__ import annotations

import numpy as np
import torch

from tianci import checkpoint
from tianci.checkpoint import Checkpoint
from tianci.data.rows import Row
from tianci.evaluate.tasks import answer
from tianci.goals.tasks.base import Task
from tianci.models import bert
from tianci.text.tokenizer import Tokenizer


def row(line: int = 1, **values) -> Row:
    """A row as a file would give it."""
    return Row(values, "toy.jsonl", line, {})


def small_model(task: Task, tokenizer: Tokenizer, seed: int = 0, positions: int = 64) -> Checkpoint:
    """Two layers of width 32 without dropout, and the task's standard head."""
    torch.manual_seed(seed)
    config = bert.Config(
        vocabulary=len(tokenizer), width=32, layers=2, heads=4, hidden=64, positions=positions,
        dropout=0.0, attention_dropout=0.0, initial_std=0.1,
    )  # fmt: skip
    model = checkpoint.create("bert", config)
    head = checkpoint.fresh_task_head("bert", config, task.head_kind, task.outputs)
    model.heads, model.tokenizer = {task.head_kind: head}, tokenizer
    model.about = {"task": task.as_table()}
    return model


def teach(
    model: Checkpoint, task: Task, rows: list[Row], limit: int, steps: int, lr: float = 3e-3
) -> list[float]:
    """Trains on batches of 32 examples; the losses."""
    examples = task.examples(rows, model.tokenizer, limit, labelled=True)
    parameters = [p for m in (model.model, *model.heads.values()) for p in m.parameters()]
    adam = torch.optim.AdamW(parameters, lr=lr, weight_decay=0.0)
    ramp = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: min(step / 20, 1 - step / steps))
    rng = np.random.default_rng(0)
    losses = []
    for _ in range(steps):
        batch = task.collate([examples[n] for n in rng.choice(len(examples), 32).tolist()])
        loss = task.loss(model.model, model.heads, model.model(batch), batch)
        mean = loss.total / task.count(batch)
        adam.zero_grad()
        mean.backward()
        adam.step()
        ramp.step()
        losses.append(mean.item())
    return losses


def predictions(model: Checkpoint, task: Task, rows: list[Row], limit: int, decision=None) -> list:
    """What people would get."""
    return task.predict(rows, answer(model, task, rows, limit), decision or {})
