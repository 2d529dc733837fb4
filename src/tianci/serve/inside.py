"""Routes that look inside a model: what an answer rests on, and where attention goes."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import torch
from msgspec import Meta, Struct
from numpy.typing import NDArray

from tianci.batch import Batch
from tianci.nn.watching import Watching
from tianci.serve.attribution import Attribute, Shares, Wanted, blank_token
from tianci.serve.call import Call, examples_of
from tianci.serve.models import Served
from tianci.serve.refusal import Refusal
from tianci.serve.work import Step, Work
from tianci.text.tokenizer import Encoded

BACKWARD = 3  # a forward and a backward pass cost as much as three forward passes
ATTRIBUTED = 8  # times the tokens of a batch: tokens times steps of one /attribute
WATCHED = 128  # tokens of a text whose attention is shown
MOST_WEIGHTS = 1 << 18  # numbers of one answer: a layer of 16 heads at 128 tokens

OneOrTwo = str | Annotated[list[str], Meta(min_length=1, max_length=2)]


class Token(Struct):
    text: str  # as it stands in the input; of special tokens their name
    token: str  # as it stands in the vocabulary
    special: bool
    start: int | None
    stop: int | None
    part: int  # 0: the first text, 1: the second


class AttributeRequest(Struct):
    inputs: OneOrTwo
    label: str | None = None
    steps: Annotated[int, Meta(ge=4, le=256)] = 32
    model: str | None = None


class Share(Token):
    share: float


class Attributed(Struct):
    label: str
    value: float
    baseline: float
    baseline_token: str
    gap: float
    tokens: list[Share]


class AttentionRequest(Struct):
    inputs: OneOrTwo
    layers: list[Annotated[int, Meta(ge=0, le=10_000)]] | None = None
    model: str | None = None


class Attention(Struct):
    tokens: list[Token]
    heads: int
    layers: int
    shown: list[int]
    weights: list[list[list[list[float]]]]


async def attribute(asked: AttributeRequest, call: Call) -> Attributed:
    """What each token of a text (or of a pair ["a", "b"]) adds to a label's log-odds, or to a
    number, by integrated gradients: the shares add up to value - baseline, up to gap."""
    model = call.models.find(asked.model, "attribute")
    texts = [asked.inputs] if isinstance(asked.inputs, str) else asked.inputs
    task = model.predictor.task
    labels = task.labels or ("LABEL_0",)
    if asked.label is not None and asked.label not in labels:
        raise Refusal("Invalid", "no such label; /info lists the labels of each model")
    record = dict(zip(("text", "pair"), texts, strict=False))

    def read() -> tuple[Any, Encoded]:
        _, (example,) = examples_of(model, task, [record], False, call.limits)
        return example.parts[0], _encoded(model, texts)

    part, encoded = await call.aside(read)
    cost = len(part.ids) * asked.steps
    if cost > ATTRIBUTED * call.limits.batch_tokens:
        most = ATTRIBUTED * call.limits.batch_tokens // asked.steps
        raise call.limits.too_long(len(part.ids), most, cuts=False)
    output = None if asked.label is None else labels.index(asked.label)
    wanted = Wanted(part, encoded.special, output)
    found: Shares
    (found,) = await call.run(
        Attribute(model.predictor, task, asked.steps), [wanted], [BACKWARD * cost]
    )
    tokens = [
        Share(one.text, one.token, one.special, one.start, one.stop, one.part, share)
        for one, share in zip(_shown(model, texts, encoded), found.tokens, strict=True)
    ]
    tokenizer = model.predictor.tokenizer
    gap = found.value - found.baseline - sum(found.tokens)
    blank = tokenizer.token(blank_token(tokenizer))
    return Attributed(labels[found.output], found.value, found.baseline, blank, gap, tokens)


@dataclass(frozen=True)
class Watch(Work):
    """Token lists to attention weights, per layer (H, n, n): pruned layers have fewer heads."""

    def run(self, items: Sequence[Looked], step: Step) -> list[list[NDArray[Any]]]:
        batch = Batch.of([one.ids for one in items], [one.segments for one in items])
        batch = batch.to(self.model.device)
        watching = Watching(batch.layout)
        with torch.inference_mode():
            self.model.model(dataclasses.replace(batch, layout=watching))
        return [
            [watching.weights[n][at].double().cpu().numpy().round(5) for n in one.layers]
            for at, one in enumerate(items)
        ]


class Looked(NamedTuple):
    ids: list[int]
    segments: list[int]
    layers: list[int]


async def attention(asked: AttentionRequest, call: Call) -> Attention:
    """How much each token (row) looks at each other one, in every layer and head, or in the layers
    that are named (counted from 0); for texts of up to 128 tokens."""
    model = call.models.find(asked.model, "attention")
    texts = [asked.inputs] if isinstance(asked.inputs, str) else asked.inputs
    config = model.predictor.model.config
    layers, heads = int(config.layers), int(config.heads)
    shown = list(range(layers)) if asked.layers is None else sorted(set(asked.layers))
    if any(n >= layers for n in shown):
        raise Refusal("Invalid", f"the model has {layers} layers, counted from 0")
    encoded = await call.aside(lambda: _encoded(model, texts))
    size, most = len(encoded), min(WATCHED, model.predictor.limit)
    if not size:
        raise Refusal("Empty", "`inputs` cannot be empty")
    if size > most:
        raise call.limits.too_long(size, most, cuts=False)
    if len(shown) * heads * size * size > MOST_WEIGHTS:
        fewer = MOST_WEIGHTS // (heads * size * size)
        raise Refusal("Validation", f"too many numbers; ask for at most {fewer} layers at a time")
    item = Looked(encoded.ids, encoded.segments, shown)
    (weights,) = await call.run(Watch(model.predictor), [item], [size])
    numbers = await asyncio.to_thread(lambda: [layer.tolist() for layer in weights])
    return Attention(_shown(model, texts, encoded), heads, layers, shown, numbers)


def _encoded(model: Served, texts: Sequence[str]) -> Encoded:
    pairs = [texts[1]] if len(texts) == 2 else None
    return model.predictor.tokenizer.encode([texts[0]], pairs)[0]


def _shown(model: Served, texts: Sequence[str], encoded: Encoded) -> list[Token]:
    """The tokens with their places. Segments do not tell which text one is of: RoBERTa has one."""
    first = len(model.predictor.tokenizer.ids([texts[0]], special=False)[0])
    found: list[Token] = []
    seen = 0
    for token, special, (start, stop) in zip(
        encoded.tokens, encoded.special, encoded.offsets, strict=True
    ):
        part = int(seen >= first and len(texts) == 2)
        if special:
            found.append(Token(token, token, True, None, None, int(seen > first)))
            continue
        seen += 1
        found.append(Token(texts[part][start:stop], token, False, start, stop, part))
    return found
