"""Families by name, and their named sizes: "bert-mini" is PRESETS["mini"] of models/bert.py."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tianci.errors import unknown
from tianci.find import find, names

DEFAULT_FAMILY = "bert"


def families() -> list[str]:
    """The names of all families."""
    return [name for name in names("tianci.models") if name != "base"]


def family(name: str) -> ModuleType:
    """The module of a family: Config, PRESETS, HEADS, PUBLIC, build."""
    return find("tianci.models", name, "model family", "PUBLIC")


def preset_names() -> list[str]:
    """All presets as family-size."""
    return [f"{name}-{size}" for name in families() for size in family(name).PRESETS]


def is_preset(name: str) -> bool:
    """Whether a name looks like a preset that exists; a bare size means BERT."""
    return name in preset_names() or name in family(DEFAULT_FAMILY).PRESETS


def preset(name: str) -> tuple[str, Any]:
    """(family, config) of a preset such as "bert-mini" or "mini"."""
    if name in family(DEFAULT_FAMILY).PRESETS:
        name = f"{DEFAULT_FAMILY}-{name}"
    if name not in preset_names():
        raise unknown("preset", name, preset_names())
    kind, _, size = name.partition("-")
    return kind, family(kind).PRESETS[size]
