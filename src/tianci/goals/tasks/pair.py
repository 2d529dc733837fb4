"""Two texts, one label: inference, paraphrase, query and document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tianci.data.rows import Field
from tianci.data.rows_fields import LABEL, PAIR, TEXT
from tianci.goals.tasks.classify import Classify


@dataclass(frozen=True)
class Pair(Classify):
    """How two texts relate; each has its segment."""

    name: ClassVar[str] = "pair"
    fields: ClassVar[tuple[Field, ...]] = (
        Field("text", TEXT),
        Field("pair", PAIR),
        Field("label", LABEL, kind="label"),
    )


TASK = Pair
