"""Many texts continued together: what `Predictor.generate` and `tianci generate` do."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tianci.errors import UserError, unknown
from tianci.serve.predictor import Predictor
from tianci.serve.writing import (
    Asked,
    Writing,
    can_write,
    continues,
    prepare,
    room_before,
    text_of,
    until,
    usual,
    write,
)

TOGETHER = 64  # texts that are written side by side
WILD = {"temperature": 0.8, "top_p": 0.95}  # how decoders write unless told: greedy texts loop


def continue_texts(
    model: Predictor,
    texts: Sequence[str],
    stop: Sequence[str],
    tell: Callable[[int, str], None] | None,
    how: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """`text` and `ids` for each text, in order; neighbours never change a text."""
    if not can_write(model):
        raise UserError(
            "this model does not write texts; take a decoder (gpt2, gpt), a T5, or an encoder that "
            "was fine-tuned for generate"
        )
    settings = make(model, how)
    asked = [_asked(model, n, text, stop, tell, settings) for n, text in enumerate(texts)]
    found: list[dict[str, Any]] = []
    for start in range(0, len(asked), TOGETHER):
        some = asked[start : start + TOGETHER]
        texts_of_some = write(model, some, settings, lambda: None)
        for one, written in zip(some, texts_of_some, strict=True):
            text = _cut(text_of(model, written.ids, one), stop)
            found.append({"text": text, "ids": list(written.ids)})
    return found


def make(model: Predictor, how: Mapping[str, Any]) -> Writing:
    """How to write: as told, else as the model's task says, else drawn with some care."""
    known = [field.name for field in dataclasses.fields(Writing)]
    for name in how:
        if name not in known:
            raise unknown("way to write", name, known)
    given = {name: value for name, value in how.items() if value is not None}
    if "causal" in model.heads and "beams" not in given and "temperature" not in given:
        given = {**WILD, **given}
    return dataclasses.replace(usual(model), **given)


def _asked(
    model: Predictor,
    number: int,
    text: str,
    stop: Sequence[str],
    tell: Callable[[int, str], None] | None,
    how: Writing,
) -> Asked:
    if not text.strip() and not continues(model):
        raise UserError("the text is empty; this model writes the target of a source, so give one")
    asked = prepare(model, text)
    if not asked.ids:
        raise UserError("the text is empty, and this model has no token to begin with; give a word")
    if not text.strip():
        raise UserError("the text is empty; give the word it begins with")
    room = room_before(model, how)
    if len(asked.ids) > room:
        wanted = f"{how.longest} new ones are wanted, but the model reads {model.limit}"
        raise UserError(
            f'"{text[:40]}" has {len(asked.ids)} tokens and {wanted}; shorten the text, or give a '
            "smaller --max-new-tokens"
        )
    if tell is not None:
        heard, plain = tell, asked
        asked = dataclasses.replace(
            asked, tell=lambda ids: heard(number, text_of(model, ids, plain))
        )
    return until(model, asked, stop) if stop else asked


def _cut(text: str, stop: Sequence[str]) -> str:
    """The text up to the first string that ends it."""
    places = [text.find(one) for one in stop if one in text]
    return text[: min(places)] if places else text
