"""Settings: small dataclasses <-> TOML files, `--set section.key=value` and command-line options.

A field's help text is the option's help text; a wrong name is answered with the nearest right one.
"""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from datetime import date, time
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tianci.errors import UserError, unknown
from tianci.files import read_small

Table = dict[str, Any]
LONE_SURROGATE = re.compile("[\\ud800-\\udfff]")  # what bytes that are not UTF-8 become
MOST_TOML = 1_000_000  # bytes of a file with settings, which people write by hand
MOST_LEVELS = 50  # of tables and lists inside each other; no setting has more than three
S = TypeVar("S")


def setting(default: Any, help: str, flag: str | None = None) -> Any:
    """A dataclass field with a default, the sentence that explains it, and maybe another option
    name."""
    about = {"help": help, "flag": flag}
    if isinstance(default, list | dict):
        return dataclasses.field(default_factory=lambda: default.copy(), metadata=about)
    return dataclasses.field(default=default, metadata=about)


def read_toml(path: str | Path) -> Table:
    """The tables of a TOML file."""
    data = read_small(path, MOST_TOML)
    try:
        tables = tomllib.loads(data.decode("utf-8"))
        _check_levels(tables)
        return tables
    except RecursionError:
        raise UserError(f"{path} is not TOML that can be read: it is nested too deeply") from None
    except ValueError as error:  # not TOML, not UTF-8, a number of thousands of digits
        raise UserError(f"{path} is not TOML: {error}") from error


def parse_assignment(text: str) -> tuple[str, str, Any]:
    """`train.lr=3e-5` as ("train", "lr", 3e-05); a value that is not TOML is a string."""
    name, equals, value = text.partition("=")
    section, dot, key = name.strip().partition(".")
    if LONE_SURROGATE.search(text):
        raise UserError("what follows --set is not UTF-8 text")
    if not (equals and dot and section and key):
        raise UserError(f'"{text}" is not section.key=value, for example train.lr=3e-5')
    try:
        found = tomllib.loads(f"value = {value.strip()}")["value"]
        _check_levels(found)
        return section, key, found
    except (ValueError, RecursionError):
        return section, key, value.strip()


def _check_levels(value: Any) -> None:
    """Raises RecursionError for values that were read, but are too deep for all that follows."""
    layer = [value]
    for _ in range(MOST_LEVELS):
        layer = [inner for one in layer if isinstance(one, dict | list)
                 for inner in (one.values() if isinstance(one, dict) else one)]  # fmt: skip
        if not layer:
            return
    raise RecursionError


def merge(base: Table, over: Mapping[str, Mapping[str, Any]]) -> Table:
    """`base` with the keys of `over` put on top, section by section."""
    result = {name: dict(table) for name, table in base.items()}
    for section, table in over.items():
        result.setdefault(section, {}).update(table)
    return result


def resolve(
    sections: Mapping[str, type],
    file: str | Path | None = None,
    assignments: Iterable[str] = (),
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """One dataclass per section: defaults, then the file, then `--set`, then options."""
    tables: Table = {}
    if file is not None:
        tables = read_toml(file)
        for name, table in tables.items():
            if not isinstance(table, dict):
                raise UserError(
                    f'{file}: "{name}" stands outside a section; put it below [section]'
                )
    given: dict[str, dict[str, Any]] = {}
    for text in assignments:
        section, key, value = parse_assignment(text)
        given.setdefault(section, {})[key] = value
    tables = merge(merge(tables, given), options or {})
    for name in tables:
        if name not in sections:
            raise unknown("section of settings", name, sections)
    # a section of kind dict is free: whoever reads it knows its names later (a model's own sizes)
    return {
        name: dict(tables.get(name, {}))
        if kind is dict
        else build(kind, tables.get(name, {}), name)
        for name, kind in sections.items()
    }


def build(kind: type[S], values: Mapping[str, Any], section: str) -> S:
    """A dataclass from plain values; wrong names and types are answered in one sentence."""
    names = [f.name for f in dataclasses.fields(kind)]  # type: ignore[arg-type]
    if not isinstance(values, Mapping):
        raise UserError(f"{section} holds a {type(values).__name__}, but a table is needed")
    for key in values:
        if key not in names:
            raise unknown("setting", f"{section}.{key}", [f"{section}.{name}" for name in names])
    try:
        return msgspec.convert(dict(values), kind, strict=False)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$.")
        key = place.rstrip("`")
        raise UserError(
            f"setting {section}.{key or '?'}: {reason[0].lower()}{reason[1:]}"
        ) from error
    except RecursionError:
        raise UserError(f"{section}: its values are nested too deeply") from None
    except UnicodeError as error:  # half a surrogate pair, which JSON can hold
        raise UserError(f"{section}: a text in it is not Unicode ({error})") from error


def convert(path: str | Path, values: Any, kind: type[S]) -> S:
    """The values of a file as a type; what does not fit is answered in one sentence."""
    try:
        return msgspec.convert(values, kind)
    except (msgspec.ValidationError, RecursionError, UnicodeError) as error:
        reason, _, place = str(error).partition(" - at `$.")
        where = f"{place.rstrip('`')}: " if place else ""
        raise UserError(f"{path}: {where}{reason[0].lower()}{reason[1:]}") from error


def as_table(value: Any) -> Table:
    """A settings dataclass (or a free table) as plain values, defaults included."""
    if isinstance(value, dict):
        return dict(value)
    # field by field: msgspec leaves out defaults of dataclasses that it built itself
    names = [field.name for field in dataclasses.fields(value)]
    return {name: msgspec.to_builtins(getattr(value, name)) for name in names}


def to_toml(settings: Mapping[str, Any]) -> str:
    """The resolved settings as a TOML file, help texts as comments."""
    lines: list[str] = []
    for section, value in settings.items():
        lines.append(f"[{section}]")
        known = () if isinstance(value, dict) else dataclasses.fields(value)
        helps = {f.name: f.metadata.get("help", "") for f in known}
        for key, item in as_table(value).items():
            note = f"  # {helps[key]}" if helps.get(key) else ""
            # TOML has no null: an unset value becomes a comment, so that the file can be read back
            text = f"# {key} = (not set)" if item is None else f"{key} = {_literal(item)}"
            lines.append(text + note)
        lines.append("")
    return "\n".join(lines)


def _literal(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(k)} = {_literal(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_literal(v) for v in value) + "]"
    if isinstance(value, str):
        # TOML and JSON strings share their escapes, but for DEL, which JSON leaves bare
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, date | time):
        return value.isoformat()
    return json.dumps(value).replace("NaN", "nan").replace("Infinity", "inf")
