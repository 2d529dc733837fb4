"""Pre-training objectives, one file each; `masked+next_sentence` names several."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from tianci.errors import UserError
from tianci.find import find, names
from tianci.goals.base import Goal, Joint
from tianci.settings import build


def objective_names() -> list[str]:
    return [name for name in names("tianci.goals.objectives") if name != "segments"]


def objective_kind(name: str) -> type[Goal]:
    """The class of an objective."""
    module = find("tianci.goals.objectives", name, "objective", "OBJECTIVE", skip=("segments",))
    kind: type[Goal] = module.OBJECTIVE
    return kind


def parse(
    text: str,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    heads: Collection[str] = (),
) -> Joint:
    """The goals named in `text`, each with its own settings; `heads` are those of the family."""
    parts: list[Goal] = []
    for name in (piece.strip() for piece in text.split("+")):
        kind = objective_kind(name)
        parts.append(build(kind, (settings or {}).get(name, {}), name).with_heads(heads))
    if len({part.name for part in parts}) < len(parts):
        raise UserError(f'"{text}" names an objective twice')
    from tianci.goals.laying import Laying
    from tianci.goals.objectives.segments import Pairing

    if sum(isinstance(part, Pairing) for part in parts) > 1:
        raise UserError(f'"{text}": only one objective may decide how sentences are paired')
    if len(parts) > 1 and (alone := [part.name for part in parts if isinstance(part, Laying)]):
        raise UserError(f'"{text}": {alone[0]} makes sequences of its own; train it alone')
    return Joint(tuple(parts))


def known_settings() -> dict[str, type]:
    """The settings of all objectives, one section each."""
    return {name: objective_kind(name) for name in objective_names()}


def fields(goal: Goal) -> dict[str, Any]:
    return dataclasses.asdict(goal)
