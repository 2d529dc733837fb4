"""The models of a server by name, and what each can do. Adapters of one base share its weights."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from tianci import adapters, checkpoint
from tianci.checkpoint import Checkpoint
from tianci.errors import UserError
from tianci.goals.tasks.base import Example, Task
from tianci.serve.attribution import can_attribute
from tianci.serve.batcher import Kind
from tianci.serve.mixed import Pool, make_pool
from tianci.serve.plan import named
from tianci.serve.predictor import Predictor, load
from tianci.serve.refusal import Refusal
from tianci.serve.work import Respond, can_watch, embed_limit, trained_head
from tianci.serve.writing import can_write

CLASSES = ("classify", "pair", "regress")


@dataclass(frozen=True, eq=False)
class Served:
    """A loaded model under its name."""

    name: str
    folder: Path
    predictor: Predictor
    pool: Pool | None = None  # with other adapters of the same base
    member: int = 0  # its number there

    def respond(self, task: Task, examples: Sequence[Example]) -> tuple[Kind, list[Any]]:
        """The work of asking the task's head, and its items."""
        if self.pool is None:
            return Respond(self.predictor, task), list(examples)
        return self.pool, [(self.member, one) for one in examples]

    @cached_property
    def task(self) -> Task | None:
        """What it was fine-tuned for, if anything."""
        try:
            return self.predictor.task
        except UserError:
            return None

    @cached_property
    def abilities(self) -> tuple[str, ...]:
        """What it can be asked: names of routes without their slash."""
        heads, task = self.predictor.heads, self.task.name if self.task else ""
        found = ["embed", "similarity", "tokenize"]
        if task in CLASSES:
            found.append("predict")
            found += ["attribute"] if can_attribute(self.predictor) else []
        if self.ranks:
            found.append("rerank")
        found += [task] if task in ("tag", "answer", "choose") else []
        if task != "generate":  # that has made its masked head into something else
            if "masked" in heads and self.predictor.tokenizer.mask is not None:
                found.append("fill")
            if "masked" in heads or "causal" in heads:
                found.append("score")
        if can_write(self.predictor):
            found.append("generate")
        if can_watch(self.predictor):
            found.append("attention")
        return tuple(found)

    @cached_property
    def ranks(self) -> bool:
        """Whether it says of two texts how well they fit."""
        task = self.task
        if task is None:
            return False
        if task.name == "regress" or trained_head(self.predictor) is not None:
            return True
        return task.name == "pair" and len(task.labels) == 2

    @property
    def limit(self) -> int:
        """How many tokens of an input it reads."""
        if self.task is not None and trained_head(self.predictor) is None:
            return self.predictor.task_limit
        return embed_limit(self.predictor)

    @cached_property
    def about(self) -> dict[str, Any]:
        """What /info says of it."""
        task = self.task
        return {
            "name": self.name,
            "family": self.predictor.checkpoint.family,
            "abilities": list(self.abilities),
            "task": None if task is None else task.name,
            "labels": list(task.labels) if task else [],
            "threshold": (self.predictor.checkpoint.about.get("decision") or {}).get("threshold"),
            "max_input_length": self.limit,
            "width": int(self.predictor.model.config.width),
            "parameters": self.predictor.checkpoint.parameter_count,
            "engine": self.predictor.engine,
            "int8": self.predictor.int8,
        }


class Models:
    """All models, in the order given; the first that can do what is asked is the usual one."""

    def __init__(self, served: Sequence[Served]):
        self.served = list(served)

    def find(
        self, name: str | None, ability: str, fits: Callable[[Served], bool] = lambda one: True
    ) -> Served:
        """The model of that name, or the first one that can, best one that also fits."""
        if name is not None:
            found = next((one for one in self.served if one.name == name), None)
            if found is None:
                raise Refusal("ModelNotFound", "no model of that name; /v1/models lists them")
            if ability not in found.abilities:
                known = ", ".join(found.abilities)
                raise Refusal("Backend", f"this model cannot {ability}; it can: {known}")
            return found
        able = [one for one in self.served if ability in one.abilities]
        if not able:
            raise Refusal("Backend", f"none of the models here can {ability}; /info tells what can")
        return next((one for one in able if fits(one)), able[0])


def read_models(
    specs: Sequence[str],
    device: str | None = None,
    engine: str | None = "torch",
    int8: bool = False,
) -> Models:
    """Loads the directories; a base that several adapters were trained on is loaded once.

    Adapters share the weights of their base, so they are run by their modules, in float32.
    """
    bases: dict[str, Checkpoint] = {}
    served, pooled = [], {}
    for name, folder in named(specs):
        if not folder.is_dir():
            raise UserError(f"{folder} is not a model directory")
        if adapters.is_adapter(folder):
            if int8 or engine not in (None, "torch", "auto"):
                raise UserError(
                    f"{folder} is an adapter; adapters share their base in torch and float32, so "
                    "serve it without --engine and --int8"
                )
            base, predictor = _adapted(folder, bases, device)
            pooled[name] = base
        else:
            predictor = load(folder, device, engine=engine, int8=int8)
        if predictor.checkpoint.tokenizer is None:
            raise UserError(f"{folder} has no tokenizer (tokenizer.json or vocab.txt)")
        served.append(Served(name, folder, predictor))
    for base in bases:
        served = _pooled(served, {name for name, key in pooled.items() if key == base})
    return Models(served)


def _pooled(served: Sequence[Served], names: set[str]) -> list[Served]:
    """The same models; those of these names answer together where that is possible."""
    members = [one for one in served if one.name in names and one.task is not None]
    pool = make_pool([one.predictor for one in members])
    return [
        dataclasses.replace(one, pool=pool, member=members.index(one))
        if pool is not None and one in members
        else one
        for one in served
    ]


def _adapted(
    folder: Path, bases: dict[str, Checkpoint], device: str | None
) -> tuple[str, Predictor]:
    """The base's hash and the model of an adapter; it owns only what the adapter's file holds."""
    about, told = adapters.read_told(folder)
    key = str(told.get("base_hash"))
    chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if key not in bases:
        place = adapters.base_of(folder, told, None)  # checks the hash
        bases[key] = checkpoint.read(place).to(chosen)
    base = bases[key]
    with safe_open(folder / adapters.FILE, "pt") as file:
        own = {name.removeprefix("model.") for name in file.keys()}  # noqa: SIM118  (no mapping)
    shared: dict[int, Any] = {
        id(p): p for name, p in base.model.named_parameters() if name not in own
    }
    shared |= {id(b): b for _, b in base.model.named_buffers()}
    model = Checkpoint(
        base.family, copy.deepcopy(base.model, shared), {}, base.tokenizer, dict(base.extra)
    )
    adapters.put(model, folder, about, told)
    return key, Predictor(model, {}, chosen, engine=None)
