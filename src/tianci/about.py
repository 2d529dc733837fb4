"""tianci.json: what a model directory says about itself, checked before anybody believes it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec

from tianci.errors import UserError
from tianci.files import read_json
from tianci.settings import convert

FILE = "tianci.json"
DECIDED = ("threshold", "temperature", "null_threshold")  # of a decision: numbers


class _Base(msgspec.Struct):
    """Where the base of an adapter is, and how the adapter fits into it."""

    size: int
    layers: int
    base: str
    base_relative: str = ""
    base_hash: str = ""


class _Task(msgspec.Struct):
    """The task and its settings; the task itself checks those."""

    name: str


class _About(msgspec.Struct):
    """The entries that somebody reads; others may be there and are kept."""

    task: _Task | None = None
    decision: dict[str, Any] | None = None
    limit: int | None = None
    heads: list[str] = []
    head: dict[str, Any] | None = None
    labels: list[str] | None = None
    scores: dict[str, Any] | None = None
    provenance: dict[str, Any] | None = None
    public: dict[str, Any] = {}
    adapter: _Base | None = None


def read_about(folder: Path) -> dict[str, Any]:
    """The content of tianci.json, nothing where there is no such file."""
    path = folder / FILE
    if not path.exists():
        return {}
    values = read_json(path)
    convert(path, values, _About)
    for name, value in (values.get("decision") or {}).items():
        if name in DECIDED and not (type(value) in (int, float) and math.isfinite(value)):
            raise UserError(f"{path}: {name} of the decision is no finite number")
    if (values.get("limit") or 0) < 0:
        raise UserError(f"{path}: limit is {values['limit']}, but it counts tokens")
    return values
