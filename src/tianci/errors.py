"""Bad input: one sentence for the person who typed the command, exit code 2."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType

LONGEST_NAME = 100  # characters of a name that are shown
# control characters, the ones that turn the direction of writing, and halves of pairs
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class UserError(Exception):
    """Something the user gave us is wrong; the message says what, where, and the way out."""


class Failed(RuntimeError):  # noqa: N818  (reads as what happened)
    """Something failed while running; the message is the whole story, exit code 1."""


class Stopped(BaseException):
    """A signal ended the work after it was saved; the message says how to go on.

    Like KeyboardInterrupt no Exception: it may come inside of a library that takes every Exception
    for a fault of the data (torch does so when it loads weights).
    """

    def __init__(self, number: int, message: str):
        super().__init__(message)
        self.number = number


def shorten(text: str, most: int = 1000) -> str:
    """A text without its middle where it is too long for a message."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]} ... {text[-half:]}"


def one_line(text: str) -> str:
    """A message as one line that cannot command a terminal: what a file says may be part of it."""
    plain = _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text.strip())
    return shorten(plain)


def unknown(what: str, name: str, known: Iterable[str]) -> UserError:
    """An error that names the nearest known name and then all of them."""
    name = shorten(name, LONGEST_NAME)  # files name things too, and comparing takes its square
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
