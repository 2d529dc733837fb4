"""Downstream tasks, one file each; the file's name is the task's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tianci.checkpoint import OWN, Checkpoint
from tianci.errors import UserError
from tianci.find import check_told, find, names
from tianci.goals.tasks.base import Task
from tianci.settings import build


def task_names() -> list[str]:
    return [name for name in names("tianci.goals.tasks") if name != "base"]


def task_kind(name: str) -> type[Task]:
    """The class of a task."""
    kind: type[Task] = find("tianci.goals.tasks", name, "task", "TASK").TASK
    return kind


def make_task(name: str, settings: Mapping[str, Any] | None = None) -> Task:
    """A task with settings of its own."""
    return build(task_kind(name), settings or {}, name)


def restore(table: Mapping[str, Any]) -> Task:
    """The task that tianci.json describes."""
    check_told("tianci.goals.tasks", str(table["name"]), "the task")
    return make_task(str(table["name"]), {k: v for k, v in table.items() if k != "name"})


def task_of(model: Checkpoint) -> Task:
    """The task a model was trained for: as tianci.json says, or as the public head suggests."""
    if model.about.get("task"):
        return _fitting(restore(model.about["task"]), model)
    kinds = {"sequence": "classify", "token": "tag", "span": "answer", "choice": "choose"}
    found = next((name for head, name in kinds.items() if head in model.heads), None)
    if found is None:
        raise UserError(
            "this model was not trained for a task; fine-tune it first: tianci finetune TASK "
            "--model DIR"
        )
    settings: dict[str, Any] = {}
    if found in ("classify", "tag"):
        head = next(iter(model.heads.values()))
        outputs = int(head.get_parameter("linear.weight").shape[0])
        settings["labels"] = model.labels or [f"LABEL_{i}" for i in range(outputs)]
        kind = model.extra.get("problem_type")
        if found == "classify" and (kind == "regression" or outputs == 1):
            return make_task("regress")
        if found == "classify" and kind == "multi_label_classification":
            settings["many"] = True
    return _fitting(make_task(found, settings), model)


def _fitting(task: Task, model: Checkpoint) -> Task:
    """The task, if its labels are as many as its head tells apart."""
    head = next((model.heads[name] for name in (task.head_kind, OWN) if name in model.heads), None)
    linear = getattr(head, "linear", None) if task.head_kind in ("sequence", "token") else None
    if linear is not None and len(linear.weight) != task.outputs:
        raise UserError(
            f"tianci.json or config.json names {len(task.labels)} labels, but the head of this "
            f"model tells {len(linear.weight)} apart; take both from the same directory"
        )
    return task
