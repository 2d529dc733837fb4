"""Which regular expressions of a tokenizer.json are run: those whose cost grows with the text only.

The engine's expressions go back and try again. `(a+)+$` takes exponential time, and even ` +$`
takes the square of a run of spaces. So an expression is run when it is a known one, or when it
cannot fail behind a repetition without end: there is nothing to go back for.
"""

from __future__ import annotations

import json
import re
from typing import Any

import tokenizers

from tianci.errors import LONGEST_NAME, UserError, shorten
from tianci.text.clean import NUMBER

LONGEST = 1000  # characters of an expression
STEPS = 64  # of cleaning or splitting
GROWTH = 64  # how many times longer a text may become by replacing
TRIES = 64  # ways that one alternative may be tried at one place
LONGEST_WORD = 1000  # characters that WordPiece looks up: its work grows with the square
# GPT-4o: two repetitions side by side, but whatever the first alternative leaves the second takes
KNOWN = {
    NUMBER,
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|"
    r"'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re"
    r"|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
# GPT-2, GPT-4, Llama 3, Qwen: these may fail behind a run of spaces, but `\s+` takes the run then
SPACES = {r"\s+(?!\S)", r"\s*[\r\n]+", r"\s*[\r\n]"}
_ATOM = re.compile(
    r"\\[pP]\{\^?[\w ]{1,40}\}|\\x\{[0-9a-fA-F]{1,8}\}|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}"
    r"|\\[^\w]|\\[sSdDwWhHtnrfRX]|[^\\\[\](){}*+?|^$]|\^|\$|\\[AbBzZ]",
    re.DOTALL,
)
_TIMES = re.compile(r"([*+?]|\{(\d*)(,?)(\d*)\})([+?]?)")
_OPEN = re.compile(r"\((\?(:|i:|i-s:|>|=|!|<=|<!))?")


class Unsafe(ValueError):  # noqa: N818  (reads as what it is)
    """An expression that might take longer than the text is long."""


def check_engine(engine: tokenizers.Tokenizer) -> None:
    """Refuses an engine whose rules could take more than time in proportion to a text."""
    longest = getattr(engine.model, "max_input_chars_per_word", 0)
    if longest > LONGEST_WORD:
        raise UserError(
            f"max_input_chars_per_word is {longest:,}; words are looked up in time that grows with "
            f"its square, so at most {LONGEST_WORD:,} are allowed"
        )
    for name in ("normalizer", "pre_tokenizer", "decoder"):
        part = getattr(engine, name)
        if part is not None:
            _check_part(name, json.loads(part.__getstate__()))


def _check_part(name: str, value: Any) -> None:
    steps: list[dict[str, Any]] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            steps += [one] if isinstance(one.get("type"), str) else []
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    if len(steps) > STEPS:
        raise UserError(f"its {name} has {len(steps)} steps; at most {STEPS} are allowed")
    growth = 1
    for step in steps:
        pattern = step.get("pattern")
        if isinstance(pattern, dict) and isinstance(pattern.get("Regex"), str):
            check_pattern(pattern["Regex"])
        if isinstance(pattern, dict) and step["type"] == "Replace":
            length = len(pattern.get("String") or "x")
            growth *= max(1, -(-len(str(step.get("content", ""))) // length))
    if growth > GROWTH:
        raise UserError(f"its {name} could make a text {growth:,} times longer by replacing")


def check_pattern(pattern: str) -> None:
    """Refuses an expression that is neither known nor plainly harmless."""
    if pattern in KNOWN:
        return
    try:
        if len(pattern) > LONGEST:
            raise Unsafe(f"it has {len(pattern):,} characters")
        alternatives, end = _alternatives(pattern, 0)
        if end != len(pattern):
            raise Unsafe("a parenthesis is not opened")
        for text in alternatives:
            if text in SPACES and r"\s+" in alternatives:
                continue
            _check_sequence(text)
    except Unsafe as error:
        raise UserError(
            f'the expression "{shorten(pattern, LONGEST_NAME)}" could take far longer than the '
            f"text is long ({error}), so this tokenizer is refused"
        ) from None


def _alternatives(pattern: str, at: int) -> tuple[list[str], int]:
    """The alternatives from a place to the end of its group."""
    found, begin, depth = [], at, 0
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            at += 2
            continue
        if character == "[":
            at = _class_end(pattern, at)
            continue
        if character == ")" and depth == 0:
            break
        depth += (character == "(") - (character == ")")
        if character == "|" and depth == 0:
            found.append(pattern[begin:at])
            begin = at + 1
        at += 1
    return [*found, pattern[begin:at]], at


def _class_end(pattern: str, at: int) -> int:
    """Behind a class such as [^\\p{L}a-z]; classes may stand inside."""
    depth = 0
    while at < len(pattern):
        if pattern[at] == "\\":
            at += 1
        elif pattern[at] == "[":
            depth += 1
        elif pattern[at] == "]":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    raise Unsafe("a bracket is not closed")


def _check_sequence(text: str, inside: bool = False) -> None:
    """One alternative: behind a repetition without end, nothing may be needed."""
    at, tries, endless = 0, 1, False
    while at < len(text):
        at, plain = _atom(text, at)
        least, most, at = _times(text, at)
        if most is None and (inside or not plain):
            raise Unsafe("a group is repeated, or repeats inside, without end")
        if most is not None and most > 1 and not plain and least != most:
            raise Unsafe("a group is repeated")
        if endless and least > 0:
            raise Unsafe("something must follow a repetition without end")
        if most is None:
            endless = True
        else:
            tries *= most - least + 1
            if tries > TRIES or most > TRIES:
                raise Unsafe("it can be tried in too many ways")


def _atom(text: str, at: int) -> tuple[int, bool]:
    """Behind one character, class or group, and whether it is no group."""
    if text[at] == "[":
        return _class_end(text, at), True
    if text[at] == "(":
        opened = _OPEN.match(text, at)
        if opened is None or (text[at + 1 : at + 2] == "?" and opened[1] is None):
            raise Unsafe("it has a group of a kind that is not known")
        inner, end = _alternatives(text, opened.end())
        if end >= len(text):
            raise Unsafe("a parenthesis is not closed")
        for one in inner:
            _check_sequence(one, inside=True)
        return end + 1, False
    found = _ATOM.match(text, at)
    if found is None:
        raise Unsafe(f"{text[at : at + 2]!r} is not known here")
    return found.end(), True


def _times(text: str, at: int) -> tuple[int, int | None, int]:
    """How often the atom before is repeated, at least and at most (None: without end)."""
    found = _TIMES.match(text, at)
    if found is None:
        return 1, 1, at
    sign = found[1][0]
    if sign == "{":
        least = int(found[2] or 0)
        most = least if not found[3] else int(found[4]) if found[4] else None
        return least, most, found.end()
    return (1 if sign == "+" else 0), (1 if sign == "?" else None), found.end()
