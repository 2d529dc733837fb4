"""Texts that a model writes, token by token: continuations by decoders, targets by T5 and by models
that were fine-tuned for `generate`. A further family plugs in at goals/writing.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from tianci.batch import Batch, Layout
from tianci.errors import UserError
from tianci.goals import decoding
from tianci.goals.decoding import Decoding as Writing
from tianci.goals.decoding import Live
from tianci.goals.laying import begin_and_end
from tianci.goals.objectives.span import sentinels_of
from tianci.goals.tasks.generate import Generate
from tianci.goals.writing import Allowed, next_scores
from tianci.nn.inputs_first import lay_inputs_first
from tianci.serve.predictor import Predictor
from tianci.text.readable import readable, without_blanks

__all__ = [
    "Asked",
    "Writing",
    "can_write",
    "continues",
    "has_halves",
    "prepare",
    "room_before",
    "text_of",
    "until",
    "usual",
    "write",
]


@dataclass(frozen=True)
class Asked:
    """What a text is written behind, and who hears of it."""

    ids: list[int]
    segments: list[int]
    prefix: int  # tokens that see each other as a whole; 0 for decoders
    decoder: tuple[int, ...] = ()  # how a target of its own half begins (T5)
    tell: Callable[[tuple[int, ...]], None] = lambda ids: None  # the text so far
    gone: Callable[[], bool] = lambda: False  # nobody wants it any more


def can_write(model: Predictor) -> bool:
    """Whether the model writes texts."""
    return "causal" in model.heads or has_halves(model) or _task(model) is not None


def has_halves(model: Predictor) -> bool:
    """Whether a source and its target are read apart, each with its own room (T5)."""
    halves = bool(getattr(model.model.config, "decoder_layers", 0))
    return halves and "generation" in model.heads


def continues(model: Predictor) -> bool:
    """Whether what is written goes on behind the text; else it is a text of its own."""
    return not has_halves(model) and _task(model) is None


def _task(model: Predictor) -> Generate | None:
    """The task that says how sources are laid out, where the model was fine-tuned for it."""
    if (model.checkpoint.about.get("task") or {}).get("name") != "generate":
        return None
    return model.task if isinstance(model.task, Generate) else None


def usual(model: Predictor) -> Writing:
    """How the model writes when the request does not say."""
    task = _task(model)
    if task is not None:
        return Writing(**{name: getattr(task, name) for name in Writing.__dataclass_fields__})
    return Writing()


def prepare(model: Predictor, text: str) -> Asked:
    """A text as the model reads it before it writes."""
    tokenizer, task = model.tokenizer, _task(model)
    if task is not None:
        text = task.prefix + text
    (ids,) = tokenizer.ids([text], special=False)
    if has_halves(model):
        config = model.model.config
        return Asked([*ids, config.end], [0] * (len(ids) + 1), 0, (config.begin,))
    if task is not None:
        part = task.source(ids, tokenizer)
        return Asked(part.ids, part.segments, len(part.ids) if task.head_kind == "masked" else 0)
    begin, _ = begin_and_end(tokenizer)
    whole = ids if begin is None else [begin, *ids]
    return Asked(whole, [0] * len(whole), 0)


def room_before(model: Predictor, how: Writing) -> int:
    """The most tokens that may be read before so many are written."""
    if not has_halves(model):
        return model.limit - how.longest
    return model.limit if how.longest < model.limit else 0


def until(model: Predictor, asked: Asked, stops: Sequence[str]) -> Asked:
    """The same, but the text ends where one of these strings occurs."""
    found: list[bool] = []

    def tell(ids: tuple[int, ...]) -> None:
        asked.tell(ids)
        if any(stop in text_of(model, ids, asked) for stop in stops):
            found.append(True)

    return replace(asked, tell=tell, gone=lambda: bool(found) or asked.gone())


def text_of(model: Predictor, ids: Sequence[int], asked: Asked) -> str:
    """What was written, as people write it; T5's sentinels are part of it.

    What goes on behind a text begins with the blank that stands between them, if there is one.
    """
    if not continues(model):
        text = model.tokenizer.decode(list(ids), skip_special=not has_halves(model))
        return readable(text) if _task(model) is not None else text
    before, whole = (_joined(model, read) for read in (asked.ids, [*asked.ids, *ids]))
    return whole[len(before) :]


def _joined(model: Predictor, ids: Sequence[int]) -> str:
    """A text of a decoder; where the vocabulary keeps no blanks, none stand around Chinese."""
    text = model.tokenizer.decode(list(ids))
    return without_blanks(text) if model.tokenizer.kind in ("wordpiece", "char") else text


@torch.inference_mode()
def write(
    model: Predictor, asked: Sequence[Asked], how: Writing, step: Callable[[], None]
) -> list[decoding.Written]:
    """One text per question; `step` is called between tokens."""
    lay_inputs_first(model.model, *model.heads.values())
    allowed = _allowed(model)
    scores = _scores(model, asked, how, allowed)

    def next_of(live: Sequence[Live]) -> Tensor:
        for one in live:
            if one.ids and how.beams == 1:  # beams change their minds: only their end is told
                asked[one.row].tell(one.ids)
        step()
        found = scores(live)
        for n, one in enumerate(live):
            if asked[one.row].gone():  # ends at once
                found[n] = -torch.inf
                found[n, allowed.end] = 0.0
        return found

    keys = [crc32(np.array(one.ids, np.int64).tobytes()) for one in asked]
    return list(decoding.write(next_of, keys, allowed.end, how))


def _allowed(model: Predictor) -> Allowed:
    tokenizer, task = model.tokenizer, _task(model)
    if has_halves(model):
        # without a task it fills in what sentinels hide, and says which
        free = () if task is not None else sentinels_of(tokenizer)
        return Allowed.by(tokenizer, int(model.model.config.end), free)
    end = task.end(tokenizer) if task is not None else begin_and_end(tokenizer)[1]
    if end is None:
        raise UserError("this model's vocabulary has no token that could end a text")
    return Allowed.by(tokenizer, end)


def _scores(
    model: Predictor, asked: Sequence[Asked], how: Writing, allowed: Allowed
) -> decoding.Next:
    """The log-probabilities of the next token of each text."""
    task = _task(model)
    order = sorted(range(len(asked)), key=lambda n: -len(asked[n].ids))
    place = [order.index(n) for n in range(len(asked))]
    prefix = [asked[n].prefix for n in order] if any(one.prefix for one in asked) else None
    batch = Batch(
        _tensor([i for n in order for i in asked[n].ids], model),
        Layout([len(asked[n].ids) for n in order], model.device, prefix),
        _tensor([i for n in order for i in asked[n].segments], model),
    )
    if has_halves(model):
        targets = Batch.of([asked[n].decoder for n in order]).to(model.device)
        batch = replace(batch, decoder=targets)
    # a continuation should not repeat what it continues; a target may say what its source says
    before = [one.decoder for one in asked] if has_halves(model) else [one.ids for one in asked]
    name = next(n for n in ("generation", "causal", "masked") if n in model.heads)
    return next_scores(
        model.model, model.heads[name if task is None else task.head_kind], batch, place, allowed,
        how, 0 if task is None or has_halves(model) else task.segment(model.tokenizer),
        None if task is not None else before,
    )  # fmt: skip


def _tensor(values: Sequence[Any], model: Predictor) -> Tensor:
    return torch.tensor(values, dtype=torch.int64, device=model.device)
