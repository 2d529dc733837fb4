"""Texts that a model writes, token by token: continuations by decoders, targets by encoders that
were fine-tuned for `generate`. A further family plugs in here: `prepare` and `_scores`.
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
from tianci.goals.tasks.generate import Generate
from tianci.nn.past import Following, Past, Recording
from tianci.serve.predictor import Predictor
from tianci.text.readable import readable

__all__ = ["Asked", "Writing", "can_write", "prepare", "text_of", "until", "usual", "write"]


@dataclass(frozen=True)
class Asked:
    """What a text is written behind, and who hears of it."""

    ids: list[int]
    segments: list[int]
    prefix: int  # tokens that see each other as a whole; 0 for decoders
    tell: Callable[[tuple[int, ...]], None] = lambda ids: None  # the text so far
    gone: Callable[[], bool] = lambda: False  # nobody wants it any more


def can_write(model: Predictor) -> bool:
    """Whether the model writes texts."""
    return "causal" in model.heads or _by_task(model)


def _by_task(model: Predictor) -> bool:
    return (model.checkpoint.about.get("task") or {}).get("name") == "generate"


def usual(model: Predictor) -> Writing:
    """How the model writes when the request does not say."""
    if _by_task(model) and isinstance(model.task, Generate):
        fields = Writing.__dataclass_fields__
        return Writing(**{name: getattr(model.task, name) for name in fields})
    return Writing()


def prepare(model: Predictor, text: str) -> Asked:
    """A text as the model reads it before it writes."""
    tokenizer = model.tokenizer
    ids = tokenizer.ids([text], special=False)[0]
    if _by_task(model):
        whole, segments = tokenizer.wrap(ids, [])
        return Asked(whole[:-1], segments[:-1], len(whole) - 1)
    begin, _ = begin_and_end(tokenizer)
    whole = ids if begin is None else [begin, *ids]
    return Asked(whole, [0] * len(whole), 0)


def until(model: Predictor, asked: Asked, stops: Sequence[str]) -> Asked:
    """The same, but the text ends where one of these strings occurs."""
    found: list[bool] = []

    def tell(ids: tuple[int, ...]) -> None:
        asked.tell(ids)
        if any(stop in text_of(model, ids) for stop in stops):
            found.append(True)

    return replace(asked, tell=tell, gone=lambda: bool(found) or asked.gone())


def text_of(model: Predictor, ids: Sequence[int]) -> str:
    """What was written, as people write it."""
    text = model.tokenizer.decode(list(ids))
    return readable(text) if _by_task(model) else text


@torch.inference_mode()
def write(
    model: Predictor, asked: Sequence[Asked], how: Writing, step: Callable[[], None]
) -> list[decoding.Written]:
    """One text per question; `step` is called between tokens."""
    scores = _scores(model, asked, how)

    def next_scores(live: Sequence[Live]) -> Tensor:
        for one in live:
            if one.ids and how.beams == 1:  # beams change their minds: only their end is told
                asked[one.row].tell(one.ids)
        step()
        found = scores(live)
        for n, one in enumerate(live):
            if asked[one.row].gone():  # ends at once
                found[n] = -torch.inf
                found[n, end] = 0.0
        return found

    end = _end(model)
    keys = [crc32(np.array(one.ids, np.int64).tobytes()) for one in asked]
    return list(decoding.write(next_scores, keys, end, how))


def _end(model: Predictor) -> int:
    tokenizer = model.tokenizer
    end = tokenizer.sep if _by_task(model) else begin_and_end(tokenizer)[1]
    if end is None:
        raise UserError("this model's vocabulary has no token that could end a text")
    return end


def _scores(model: Predictor, asked: Sequence[Asked], how: Writing) -> decoding.Next:
    """The log-probabilities of the next token of each text; what was read is read once."""
    order = sorted(range(len(asked)), key=lambda n: -len(asked[n].ids))
    place = [order.index(n) for n in range(len(asked))]
    prefix = [asked[n].prefix for n in order] if any(one.prefix for one in asked) else None
    layout = Layout([len(asked[n].ids) for n in order], model.device, prefix)
    past = Past(layout.longest + how.longest)
    first = model.model(
        Batch(
            _tensor([i for n in order for i in asked[n].ids], model),
            Recording(layout, past),
            _tensor([i for n in order for i in asked[n].segments], model),
        )
    )
    name = "masked" if _by_task(model) else "causal"
    head, size = model.heads[name], len(model.tokenizer)
    barred = sorted(model.tokenizer.special_ids - {_end(model)})
    segment = model.tokenizer.wrap([0], [0])[1][-2] if _by_task(model) else 0

    def scores(live: Sequence[Live]) -> Tensor:
        if live[0].ids:
            past.choose([one.parent for one in live])
            written = _tensor([one.ids[-1] for one in live], model)
            segments = _tensor([segment] * len(live), model)
            last = model.model(Batch(written, Following(past), segments)).last
        else:
            past.choose(place)
            last = first.last[layout.last()[place]]
        logits: Tensor = head(last, model.model.token_table()).float()
        logits[:, barred] = -torch.inf
        logits[:, size:] = -torch.inf  # rows of the table that no token has
        texts = [[*asked[one.row].ids, *one.ids] for one in live]
        return decoding.log_probabilities(logits, texts, how)

    return scores


def _tensor(values: Sequence[Any], model: Predictor) -> Tensor:
    return torch.tensor(values, dtype=torch.int64, device=model.device)
