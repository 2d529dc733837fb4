"""Objectives that lay out their sequences themselves, instead of [CLS] a [SEP] b [SEP].

A document is a range of numbered tokens. `cut` makes ranges of it, `lay` turns the text of a range
into what a model reads: one sequence, or a source and a target.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tianci.errors import UserError
from tianci.goals.base import Goal
from tianci.goals.objectives.segments import Borders, Example, Span
from tianci.text.formats import name_in
from tianci.text.tokenizer import Tokenizer

Ids = NDArray[np.int64]


class Marks(NamedTuple):
    """The tokens that stand before and behind a text, and those that stand for something hidden."""

    begin: int
    end: int
    sentinels: tuple[int, ...] = ()  # <extra_id_0>, <extra_id_1>, ...


class Laid(NamedTuple):
    """One training example."""

    ids: Ids  # what the model reads, or its encoder
    prefix: int = 0  # how many of them are a source that sees itself as a whole (0: none)
    decoder: Ids | None = None  # the target, where the model has a decoder


@dataclass(frozen=True)
class Laying(Goal):
    """An objective that cuts and lays out for itself."""

    def marks(self, tokenizer: Tokenizer) -> Marks:
        """The special tokens of a vocabulary."""
        begin, end = begin_and_end(tokenizer)
        if begin is None or end is None:
            raise UserError(
                f"{self.name} needs a token before and one behind a text, but the vocabulary has "
                "neither [CLS] and [SEP] nor <|endoftext|>; learn one with tianci vocab"
            )
        return Marks(begin, end)

    def cut(self, sentences: Borders, length: int, rng: np.random.Generator) -> Iterator[Example]:
        """The examples of one document, for sequences of up to `length` tokens."""
        raise TypeError(f"{self.name} does not cut")

    def lay(self, text: Ids, example: Example, marks: Marks, rng: np.random.Generator) -> Laid:
        """What is read of one example's text."""
        raise TypeError(f"{self.name} does not lay")

    # ------------------------------------------------------------ what an audit asks

    def own(self, example: Example) -> Span:
        """The range that no other example should have."""
        return example.a

    def restored(self, laid: Laid, example: Example, marks: Marks) -> Ids | None:
        """The text that was laid out; None where a mark is not in its place."""
        raise TypeError(f"{self.name} cannot be taken back")

    def shares(self, laid: Laid, marks: Marks) -> dict[str, tuple[int, int]]:
        """(hits, cases) of what was decided by dice."""
        return {}

    def promised(self) -> dict[str, float | None]:
        """What these shares should be (None: they are only shown)."""
        return {}


def begin_and_end(tokenizer: Tokenizer) -> tuple[int | None, int | None]:
    """The tokens before and behind a text: those of the template ([CLS] and [SEP], <s> and </s>),
    or else what the files call bos and eos; GPT-2 has one for both."""
    named = [
        tokenizer.id(name_in(tokenizer.config, role) or "<|endoftext|>")
        for role in ("bos_token", "eos_token")
    ]
    begin = named[0] if tokenizer.cls is None else tokenizer.cls
    end = named[1] if tokenizer.sep is None else tokenizer.sep
    return begin, end
