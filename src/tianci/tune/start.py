"""The model a run begins with: pre-trained or fresh, with the task's head."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from tianci import checkpoint
from tianci.checkpoint import OWN, Checkpoint
from tianci.errors import UserError
from tianci.goals.tasks.base import Task
from tianci.models import family, is_preset, preset
from tianci.nn.task_heads import HeadPlan
from tianci.settings import build
from tianci.text.tokenizer import Tokenizer
from tianci.train.vocabulary import vocabulary_sizes
from tianci.tune import strategy
from tianci.tune.settings import Finetune
from tianci.tune.task_tokens import give_task_tokens


def begin(
    settings: Finetune, task: Task, seed: int, tokenizer: Tokenizer | None = None
) -> Checkpoint:
    """A model with a fresh head for the task; the seed decides the fresh weights."""
    torch.manual_seed(seed)
    model = _base(settings, task, tokenizer)
    give_head(model, task, settings)
    strategy.shape(model, settings)
    strategy.choose(model, settings)
    return model


def load_base(name: str, tokenizer: Tokenizer | None = None) -> Checkpoint:
    """The model of a directory, or a fresh one of a preset (which needs a tokenizer)."""
    if Path(name).exists() or not is_preset(name):
        return checkpoint.read(name)
    if tokenizer is None:
        raise UserError(f'"{name}" is a preset, which has no vocabulary; give --tokenizer DIR')
    kind, config = preset(name)
    table = {**dataclasses.asdict(config), **vocabulary_sizes(config, tokenizer)}
    model = checkpoint.create(kind, build(type(config), table, "model"))
    model.tokenizer = tokenizer
    return model


def _base(settings: Finetune, task: Task, tokenizer: Tokenizer | None) -> Checkpoint:
    """The same, with the tokens that the task needs around its texts."""
    model = load_base(settings.model, tokenizer)
    if settings.task_tokens == "auto":
        give_task_tokens(model, task)
    return model


def from_scratch(
    settings: Finetune, task: Task, seed: int, tokenizer: Tokenizer | None = None
) -> Checkpoint:
    """The same architecture and vocabulary with fresh weights, to see what pre-training brought."""
    torch.manual_seed(seed)
    base = _base(settings, task, tokenizer)
    model = checkpoint.create(base.family, base.model.config)
    model.tokenizer = base.tokenizer
    give_head(model, task, settings)
    strategy.shape(model, settings)
    strategy.choose(model, settings)
    return model


def give_head(model: Checkpoint, task: Task, settings: Finetune) -> None:
    """Puts a fresh head for the task in place of the pre-training heads; a pooler is kept."""
    old = model.heads
    plan = head_plan(model, task, settings)
    if plan is not None:
        head, name = checkpoint.planned_head(model.model.config, plan), OWN
    elif task.head_kind in family(model.family).HEADS:  # a pre-training head, kept if it is there
        name = task.head_kind
        fresh = name not in old
        kind, config = model.family, model.model.config
        head = checkpoint.fresh_head(kind, config, name) if fresh else old[name]
    else:
        name = task.head_kind
        head = checkpoint.fresh_task_head(model.family, model.model.config, name, task.outputs)
        pooler, before = checkpoint.pooler_of({name: head}), checkpoint.pooler_of(old)
        if pooler is not None and before is not None:
            pooler.load_state_dict(before.state_dict())
    model.heads = {name: head}
    if settings.language:
        model.heads |= language_head(model, old)
    for name in ("id2label", "label2id", "problem_type"):  # of the task that the base was tuned for
        model.extra.pop(name, None)
    if task.labels:
        model.name_labels(task.labels)
    model.extra |= task.public_config()


def language_head(model: Checkpoint, old: Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    """The head of the auxiliary loss."""
    if "causal" in family(model.family).HEADS:  # the token table itself: it is always there
        return {"causal": checkpoint.fresh_head(model.family, model.model.config, "causal")}
    if "masked" not in old:
        raise UserError(
            "--language needs a decoder, or an encoder that still has its masked-language-model "
            f"head; this {model.family} has: {', '.join(old) or 'no head'}"
        )
    return {"masked": old["masked"]}


def head_plan(model: Checkpoint, task: Task, settings: Finetune) -> HeadPlan | None:
    """The plan of a head of our own; None where the family's standard head is wanted."""
    layers = settings.layers or int(model.model.config.layers)
    special = settings.mix or settings.lstm or settings.hidden or settings.crf or (
        settings.pooling and not task.per_token
    )  # fmt: skip
    if task.head_kind in family(model.family).HEADS:
        if special:
            raise UserError(
                f"{task.name} speaks with the language-model head; --mix, --lstm, --hidden, --crf "
                "and --pooling do not go with it"
            )
        return None
    if task.name == "generate":
        raise UserError(
            f"{model.family} has no head for generate.by={task.head_kind}; leave it to the family"
        )
    if settings.crf and task.head_kind != "token":
        raise UserError(f"--crf needs a label per token; {task.name} has none")
    standard = task.head_kind in family(model.family).TASK_HEADS
    if standard and not special:
        return None
    dropout = settings.dropout
    if dropout is None:
        dropout = float(getattr(model.model.config, "dropout", 0.1))
    return HeadPlan(
        outputs=task.outputs,
        per_token=task.per_token,
        pooling=settings.pooling or "mean",
        mixed_layers=layers + 1 if settings.mix else 0,
        lstm=settings.lstm,
        crf=settings.crf,
        hidden=settings.hidden,
        dropout=dropout,
    )
