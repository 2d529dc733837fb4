"""The fields of tasks that have no file yet."""

from __future__ import annotations

from tianci.data.rows import Field
from tianci.data.rows_fields import (
    ANSWERS,
    CHOICES,
    CONTEXT,
    IMPOSSIBLE,
    LABEL,
    NUMBER,
    PAIR,
    QUESTION,
    SOURCE,
    TAGS,
    TARGET,
    TEXT,
    WORDS,
)

FIELDS = {
    "tag": (Field("words", WORDS, kind="words"), Field("tags", TAGS, kind="tags")),
    "answer": (
        Field("context", CONTEXT),
        Field("question", QUESTION),
        Field("answers", ANSWERS, kind="answers"),
        Field("impossible", IMPOSSIBLE, required=False, kind="flag"),
    ),
    "choose": (
        Field("context", CONTEXT, required=False),
        Field("question", QUESTION, required=False),
        Field("choices", CHOICES, kind="texts"),
        Field("label", LABEL, kind="label"),
    ),
    "similar": (
        Field("text", TEXT),
        Field("pair", PAIR, required=False),
        Field("number", NUMBER, required=False, kind="number"),
    ),
    "generate": (Field("source", SOURCE), Field("target", TARGET, kind="texts")),
}
