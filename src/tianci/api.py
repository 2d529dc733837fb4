"""The commands as Python functions: the same names as keyword arguments, back comes what --json
prints."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tianci.errors import UserError, unknown
from tianci.goals.objectives import objective_names
from tianci.settings import build
from tianci.train.pretrain import pretrain as run_pretraining
from tianci.train.settings import Pretrain, Train


def pretrain(
    *, resume: str | None = None, seed: int = 0, quiet: bool = True, **names: Any
) -> dict[str, Any]:
    """Pre-trains, as `tianci pretrain` does: pretrain(corpus="corpus", preset="mini",
    out="runs/mini").

    Tables such as model={"layers": 6} or masked={"rate": 0.2} stand for --set model.layers=6 and
    so on; the model to go on from is start_from (--from is no name in Python).
    """
    fields = {"pretrain": _fields(Pretrain), "train": _fields(Train)}
    tables = ("model", *objective_names())
    values: dict[str, dict[str, Any]] = {name: dict(names.pop(name, {})) for name in tables}
    for name, value in names.items():
        section = next((s for s, known in fields.items() if name in known), None)
        if section is None:
            known = [*fields["pretrain"], *fields["train"], *tables, "resume", "seed", "quiet"]
            raise unknown("argument", name, known)
        values.setdefault(section, {})[name] = str(value) if section == "pretrain" else value
    sections: dict[str, Any] = {name: values[name] for name in tables}
    sections["pretrain"] = build(Pretrain, values.get("pretrain", {}), "pretrain")
    sections["train"] = build(Train, values.get("train", {}), "train")
    return run_pretraining(sections, seed=seed, quiet=quiet, resume=resume)


def finetune(
    task: str = "", *, resume: str | None = None, seed: int = 0, quiet: bool = True, **names: Any
) -> dict[str, Any]:
    """Fine-tunes, as `tianci finetune` does: finetune("classify", model="runs/mini",
    train="train.jsonl", dev="dev.jsonl", out="runs/hotel").

    A table with the task's name holds the task's own settings: classify={"many": True}.
    """
    from tianci.tune.run import finetune as run_finetuning
    from tianci.tune.settings import Finetune

    own = dict(names.pop(task, {})) if task else {}
    known = _fields(Finetune)
    for name in names:
        if name not in known:
            raise unknown("argument", name, [*known, "resume", "seed", "quiet"])
    texts = ("model", "tokenizer", "train", "dev", "test", "out", "lr")
    values = {name: str(v) if name in texts else v for name, v in names.items()}
    values |= {name: _listed(values[name]) for name in ("column", "sweep") if name in values}
    settings = build(Finetune, values, "finetune")
    return run_finetuning(task, settings, own, seed, quiet, resume)


def check(
    files: Mapping[str, Any] | Sequence[str | Path] | str | Path = (),
    task: str = "",
    columns: Mapping[str, str] | None = None,
    **names: Any,
) -> list[dict[str, Any]]:
    """Faults in labelled data, as `tianci check --json` prints them: check(["train.jsonl",
    "dev.jsonl"], "classify"), or by split: check({"train": "a.jsonl", "dev": rows}, "classify").

    Also train, dev, test, column, model and length as on the command line, and the task's own
    settings: classify={"many": True}.
    """
    from tianci.evaluate.check import check as find_faults
    from tianci.evaluate.check import check_files
    from tianci.goals.tasks import make_task
    from tianci.tune.settings import Finetune

    own = dict(names.pop(task, {}))
    known = {"train": list, "dev": list, "test": list, "column": list, "model": str, "length": int}
    for name in names:
        if name not in known:
            raise unknown("argument", name, [*known, "files", "task", "columns"])
    given: dict[str, Any] = {
        name: _listed(v) if known[name] is list else v for name, v in names.items()
    }
    named = {**Finetune(column=given.pop("column", [])).columns, **(columns or {})}
    if isinstance(files, Mapping):
        if given:
            raise UserError(
                f"check: give {next(iter(given))} with a list of files, not with splits"
            )
        found = find_faults(files, make_task(task, own), named)
    else:
        given["model"] = str(given.get("model", ""))
        found = check_files(
            _listed(files), task=task, columns=named, settings=own, **given
        ).findings
    return [dataclasses.asdict(one) for one in found]


def compare(
    recipes: Sequence[Any], *, seed: int = 0, quiet: bool = True, **names: Any
) -> dict[str, Any]:
    """Compares models, as `tianci compare` does: compare(["recipes/lineage-zh.toml"], minutes=2,
    out="runs/lineage")."""
    from tianci.comparison.run import compare as run_comparison
    from tianci.comparison.settings import Compare

    known = _fields(Compare)
    for name in names:
        if name not in known:
            raise unknown("argument", name, [*known, "seed", "quiet"])
    texts = ("data", "out", "title")
    values = {name: str(v) if name in texts else v for name, v in names.items()}
    return run_comparison(recipes, options={"compare": values}, seed=seed, quiet=quiet)


def _listed(value: Any) -> list[Any]:
    """Several values, or one alone."""
    return [value] if isinstance(value, str | Path) else list(value)


def _fields(kind: type) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]
