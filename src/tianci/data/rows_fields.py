"""What a task wants of each row (fields), which column holds it, and values of the right kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tianci.errors import unknown

# Column names that are understood without being told, in this order; shared by the tasks. A name
# may stand in two lists: a column is taken once, by the first field that asks (QNLI: question,
# sentence).
TEXT = (
    *("text", "text_a", "text1", "sentence1", "sentence_1", "question1", "premise", "query"),
    *("question", "sentence", "content", "review", "comment", "title", "src"),
)
PAIR = (
    *("pair", "text_b", "text2", "sentence2", "sentence_2", "question2", "hypothesis"),
    *("document", "passage", "answer", "sentence"),
)
LABEL = ("label", "labels", "class", "target", "gold_label", "score", "similarity")
NUMBER = ("score", "similarity", "label", "target", "rating", "value")
WORDS = ("words", "tokens")
TAGS = ("tags", "ner_tags", "pos_tags", "labels", "label")
CONTEXT = ("context", "passage", "paragraph", "article", "document")
QUESTION = ("question", "query")
ANSWERS = ("answers",)
IMPOSSIBLE = ("impossible", "is_impossible")
CHOICES = ("choices", "options", "candidates", "endings")
SOURCE = ("source", "src", "input", "article", "document", "dialogue", "text", "text_a")
TARGET = ("target", "tgt", "output", "summary", "title", "text_b")

LABELLING = ("label", "labels", "number", "tags", "answers")  # kinds that prediction does without
EMPTY = ("label", "number", "flag")  # kinds whose value cannot be an empty string


@dataclass(frozen=True)
class Field:
    """One thing that a task reads from each row, by our name."""

    name: str
    aliases: tuple[str, ...] = ()
    required: bool = True
    kind: str = "text"  # text, label, labels, number, texts, words, tags, answers or flag
    separator: str = "|"  # between labels, where they are one string


def match_columns(
    fields: Sequence[Field], columns: Iterable[str], given: Mapping[str, str]
) -> dict[str, str]:
    """Our name to the file's column: as the user said, else the same name, else an alias."""
    for name in given:
        if name not in (known := [field.name for field in fields]):
            raise unknown("field", name, known)
    exact = {column: column for column in columns}
    loose = {column.strip().lower(): column for column in exact}  # Text, LABEL
    found: dict[str, str] = {}

    def take(field: Field, name: str) -> bool:
        column = exact.get(name, loose.get(name))
        if column is None or column in found.values():
            return False
        found[field.name] = column
        return True

    for field in fields:
        if field.name in given:
            take(field, given[field.name])
    rest = [field for field in fields if field.name not in given]
    for field in rest:
        take(field, field.name)
    for field in rest:
        if field.name not in found:
            any(take(field, alias) for alias in field.aliases)
    return found


def value_of(field: Field, value: Any) -> Any:
    """The value in the form of its kind, None where there is none; ValueError says what is wrong
    with it."""
    if value is None or (field.kind in EMPTY and isinstance(value, str) and not value.strip()):
        return None
    return _KINDS[field.kind](value, field)


def _text(value: Any, field: Field) -> str:
    if not isinstance(value, str):
        raise ValueError(f"holds {_what(value)}, not text")
    return value


def _label(value: Any, field: Field) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # tables with gaps turn 1 into 1.0
    if isinstance(value, int | float):
        return str(value)
    way_out = "; for several labels per text: --set classify.many=true"
    hint = way_out if isinstance(value, list) else ""
    raise ValueError(f"holds {_what(value)}, not a label{hint}")


def _labels(value: Any, field: Field) -> list[str]:
    if isinstance(value, str):
        value = _listed(value, lambda text: text.split(field.separator))
    elif not isinstance(value, list):
        value = [value]
    names = (_label(label, field) for label in value)
    return list(dict.fromkeys(name for name in names if name))


def _number(value: Any, field: Field) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"holds {_what(value)}, not a number")
    try:
        number = float(value)
    except ValueError:
        raise ValueError(f'holds "{value}", which is not a number') from None
    if not math.isfinite(number):
        raise ValueError(f'holds "{value}", which is not a finite number')
    return number


def _texts(value: Any, field: Field) -> list[str]:
    return _strings(value, lambda text: [text])


def _words(value: Any, field: Field) -> list[str]:
    return _strings(value, str.split)


def _tags(value: Any, field: Field) -> list[str]:
    value = _listed(value, str.split) if isinstance(value, str) else value
    if not isinstance(value, list):
        raise ValueError(f"holds {_what(value)}, not a list of tags")
    return [_label(tag, field) for tag in value]


def _strings(value: Any, split: Callable[[str], list[str]]) -> list[str]:
    value = _listed(value, split) if isinstance(value, str) else value
    if not isinstance(value, list):
        raise ValueError(f"holds {_what(value)}, not a list of texts")
    for part in value:
        if not isinstance(part, str):
            raise ValueError(f"holds {_what(part)} in its list, not text")
    return value


def _listed(value: str, split: Callable[[str], list[str]]) -> Any:
    """The list in a cell of a table: JSON where it looks like it, else cut by `split`."""
    if value.lstrip().startswith("[") and value.rstrip().endswith("]"):
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            pass  # a text may begin with a bracket
    return split(value)


def _answers(value: Any, field: Field) -> list[dict[str, Any]]:
    if isinstance(value, str):
        value = _listed(value, lambda text: [])
    if isinstance(value, dict):  # the form of the Hugging Face hub: lists side by side
        texts, starts = value.get("text"), value.get("answer_start")
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            raise ValueError('needs "text" and "answer_start", two lists of the same length')
        value = [{"text": t, "answer_start": s} for t, s in zip(texts, starts, strict=True)]
    if not isinstance(value, list):
        raise ValueError(f"holds {_what(value)}, not a list of answers")
    found = []
    for answer in value:
        text = answer.get("text") if isinstance(answer, dict) else None
        start = answer.get("answer_start") if isinstance(answer, dict) else None
        if not isinstance(text, str) or not isinstance(start, int) or isinstance(start, bool):
            raise ValueError('needs "text" (a string) and "answer_start" (a number) in each answer')
        found.append({"text": text, "answer_start": start})
    return found


def _flag(value: Any, field: Field) -> bool:
    known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    name = str(value).strip().lower()
    if isinstance(value, list | dict) or name not in known:
        raise ValueError(f"holds {_what(value)}, not true or false")
    return known[name]


def _what(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value[:40]}"'
    kinds = {int: "a number", float: "a number", list: "a list", dict: "an object"}
    return kinds.get(type(value), "nothing")


_KINDS: dict[str, Callable[[Any, Field], Any]] = {
    "text": _text,
    "label": _label,
    "labels": _labels,
    "number": _number,
    "texts": _texts,
    "words": _words,
    "tags": _tags,
    "answers": _answers,
    "flag": _flag,
}
