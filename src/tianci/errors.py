"""Bad input: one sentence for the person who typed the command, exit code 2."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType


class UserError(Exception):
    """Something the user gave us is wrong; the message says what, where, and the way out."""


class Stopped(Exception):  # noqa: N818  (not an error: everything was saved)
    """A signal ended the work after it was saved; the message says how to go on."""

    def __init__(self, number: int, message: str):
        super().__init__(message)
        self.number = number


def unknown(what: str, name: str, known: Iterable[str]) -> UserError:
    """An error that names the nearest known name and then all of them."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f'did you mean "{near[0]}"? ' if near else ""
    return UserError(f'unknown {what} "{name}"; {hint}known: {", ".join(names)}')


def need(module: str, extra: str) -> ModuleType:
    """The module, or one line that says which extra brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UserError(f"this needs: pip install 'tianci[{extra}]'") from error
