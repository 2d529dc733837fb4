"""Texts or ids of requests as lists of ids that the model reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from tianci.serve.call import Call, Direction, cutting
from tianci.serve.models import Served
from tianci.serve.refusal import Refusal
from tianci.serve.work import embed_limit

Id = Annotated[int, Meta(ge=0, le=2**31 - 1)]
# a text, a list of ids, or a list of these; msgspec wants one kind of array
Input = str | list[str | Id | list[Id]]
Texts = str | list[str]


def several(given: Input) -> list[str | list[int]]:
    """What was given, as a list of inputs."""
    if isinstance(given, str):
        return [given]
    numbers = [one for one in given if isinstance(one, int)]
    if numbers and len(numbers) == len(given):
        return [numbers]
    if numbers:
        raise Refusal("Invalid", "`inputs` mixes ids with texts or lists; give one kind")
    return [one for one in given if not isinstance(one, int)]


def texts_of(given: Texts) -> list[str]:
    return [given] if isinstance(given, str) else given


def prompted(
    model: Served, inputs: Sequence[str | list[int]], name: str | None
) -> Sequence[str | list[int]]:
    """Texts behind the prompt of that name, which a sentence-transformers directory may bring."""
    if name is None:
        return inputs
    known: dict[str, str] = model.predictor.defaults.get("prompts", {})
    if name not in known:
        told = f"; known: {', '.join(known)}" if known else ": the model has no prompts"
        raise Refusal("Invalid", f"no prompt of that name{told}")
    return [known[name] + one if isinstance(one, str) else one for one in inputs]


async def read_inputs(
    call: Call,
    model: Served,
    inputs: Sequence[str | list[int]],
    truncate: bool | None,
    direction: Direction = "Right",
) -> list[list[int]]:
    """Ids with special tokens; ids that were given are read as they are."""
    call.limits.check_inputs(len(inputs))
    if not all(inputs):  # TEI and OpenAI refuse an empty text, too
        raise Refusal("Empty", "`inputs` cannot be empty")
    tokenizer, limit = cutting(model, direction), embed_limit(model.predictor)
    cut, size = call.cut(truncate), len(tokenizer)

    def encode() -> list[list[int]]:
        most = limit if cut else None
        made = iter(tokenizer.ids([one for one in inputs if isinstance(one, str)], limit=most))
        kept = slice(most) if direction.lower() == "right" or not most else slice(-most, None)
        return [next(made) if isinstance(one, str) else one[kept] for one in inputs]

    found = await call.aside(encode)
    for ids in found:
        if len(ids) > limit:
            raise call.limits.too_long(len(ids), limit)
    if any(i >= size for ids, one in zip(found, inputs, strict=True)
           if not isinstance(one, str) for i in ids):  # fmt: skip
        raise Refusal("Tokenizer", f"an id is not in the vocabulary of {size} entries")
    return found
