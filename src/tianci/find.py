"""From a name to the module of that name: "bert" is models/bert.py; a dotted path is a plug-in."""

from __future__ import annotations

import pkgutil
import sys
from importlib import import_module
from types import ModuleType

from tianci.errors import LONGEST_NAME, UserError, shorten, unknown


def names(package: str) -> list[str]:
    """The files of a package that can be named by users."""
    path = import_module(package).__path__
    return sorted(m.name for m in pkgutil.iter_modules(path) if not m.name.startswith("_"))


def check_told(package: str, name: str, what: str) -> None:
    """Refuses a plug-in that a file names: importing it would run code that the file chose.

    One that is imported already was chosen by the user.
    """
    if name not in names(package) and name not in sys.modules:
        raise UserError(
            f'{what} "{shorten(name, LONGEST_NAME)}" is not part of tianci, and a file cannot '
            "have code imported; import the plug-in first"
        )


def find(
    package: str, name: str, what: str, holds: str, skip: tuple[str, ...] = ("base",)
) -> ModuleType:
    """The module for a name, by its file name, or by a dotted path outside this package.

    `holds`: what such a module must define.
    """
    known = [n for n in names(package) if n not in skip]
    if name in known:
        return import_module(f"{package}.{name}")
    if "." not in name:
        raise unknown(what, name, known)
    try:
        found = import_module(name)
    except (ImportError, TypeError, ValueError) as error:  # "..x" and the like are no modules
        raise UserError(f'the {what} "{name}" cannot be imported: {error}') from error
    if not hasattr(found, holds):
        raise UserError(f'"{name}" is no {what}: that module does not define {holds}')
    return found
