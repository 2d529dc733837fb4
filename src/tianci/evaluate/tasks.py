"""What a fine-tuned model says about rows, and how good that is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tianci.checkpoint import Checkpoint
from tianci.data.collate import by_budget
from tianci.data.rows import Row
from tianci.errors import UserError
from tianci.goals.tasks.base import Example, Task
from tianci.text.tokenizer import Tokenizer

BATCH_TOKENS = 4096


def reading_limit(model: Checkpoint, task: Task, wanted: int = 0) -> int:
    """How many tokens of a text are read; without being told, as many as the task usually reads."""
    most = int(getattr(model.model.config, "positions", 0) or task.usual_length)
    if wanted > most:
        raise UserError(f"--length is {wanted}, but the model reads {most} tokens")
    return wanted or min(most, task.usual_length)


def tokenizer_of(model: Checkpoint) -> Tokenizer:
    if model.tokenizer is None:
        raise UserError("this model has no tokenizer (tokenizer.json or vocab.txt)")
    return model.tokenizer


def answer(
    model: Checkpoint,
    task: Task,
    rows: Sequence[Row],
    limit: int,
    device: str = "cpu",
    progress: Callable[[int], object] | None = None,
) -> list[Any]:
    """One answer per row; the batch never changes it."""
    examples = task.examples(rows, tokenizer_of(model), limit, labelled=False)
    return task.join(examples, answer_examples(model, task, examples, device, progress))


@torch.inference_mode()
def answer_examples(
    model: Checkpoint,
    task: Task,
    examples: Sequence[Example],
    device: str = "cpu",
    progress: Callable[[int], object] | None = None,
) -> list[Any]:
    """What the model says of each example, in order, without dropout."""
    parts = [model.model, *model.heads.values()]
    was = [part.training for part in parts]
    for part in parts:
        part.eval()
    found: list[Any] = [None] * len(examples)
    for numbers in by_budget([example.length for example in examples], BATCH_TOKENS):
        batch = task.collate([examples[n] for n in numbers]).to(device)
        said = task.respond(model.model, model.heads, batch)
        for n, one in zip(numbers, said, strict=True):
            found[n] = one
        if progress:
            progress(len(numbers))
    for part, training in zip(parts, was, strict=True):
        part.train(training)
    return found
