"""What a comparison is: its shared part, its models and its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tianci.errors import UserError
from tianci.settings import setting

BUDGETS = ("minutes", "tokens", "steps")


@dataclass(frozen=True)
class Compare:
    """What all models of a comparison share."""

    title: str = setting("", "what is compared, the title of the table")
    data: str = setting("", "folder that the files of a recipe lie in (default: as it says)")
    text: list[str] = setting([], "text to pre-train on, inside the data folder; repeatable")  # noqa: RUF009
    minutes: float | None = setting(None, "pre-train each model so many minutes")
    tokens: int | None = setting(None, "pre-train each model on so many tokens")
    steps: int | None = setting(None, "pre-train each model for so many steps")
    seeds: int = setting(3, "fine-tune so often on each task, with different seeds")
    out: str = setting("compare", "directory for the runs and the table, a folder per recipe")

    def __post_init__(self) -> None:
        given = [name for name in BUDGETS if getattr(self, name) is not None]
        if len(given) > 1:
            raise UserError(
                f"compare.{given[0]} and compare.{given[1]} both say how long each model is "
                "pre-trained; give one of them"
            )
        for name in (*given, "seeds"):
            if getattr(self, name) <= 0:
                raise UserError(f"compare.{name} must be more than 0, not {getattr(self, name)}")

    @property
    def budget(self) -> dict[str, Any]:
        """The one limit that is set, as settings of a training run."""
        given = {name: getattr(self, name) for name in BUDGETS}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class Entry:
    """One model of a comparison; tables that it has of its own go on top of the shared ones."""

    name: str
    preset: str = ""
    objective: str = ""
    directory: str = ""  # an existing model, which is not pre-trained here
    pretrained: bool = True  # False: fresh weights, to see what pre-training brings
    tables: dict[str, dict[str, Any]] | None = None  # sizes, vocab, train, finetune, masked, ...

    def table(self, name: str) -> dict[str, Any]:
        return (self.tables or {}).get(name, {})


@dataclass(frozen=True)
class Labels:
    """One labelled data set: the task, its files, and how it is learned."""

    name: str
    task: str
    finetune: dict[str, Any]  # train, dev, test and more, as settings of a fine-tuning run
    settings: dict[str, Any]  # of the task itself
