"""Our own routes: what tianci's models can do besides vectors and classes."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from tianci.errors import UserError
from tianci.serve.call import Call
from tianci.serve.inputs import Texts, texts_of
from tianci.serve.models import Served
from tianci.serve.refusal import Refusal
from tianci.serve.work import Fill, Score, Write
from tianci.serve.writing import Asked, Writing, has_halves, prepare, room_before, text_of, usual

SCORED = 4  # times the tokens of a batch: what one text of /score may cost


class FillRequest(Struct):
    inputs: Texts
    top: Annotated[int, Meta(ge=1, le=1000)] = 5
    model: str | None = None


class Candidate(Struct):
    token: str
    id: int
    score: float


Masks = list[list[Candidate]]


async def fill(asked: FillRequest, call: Call) -> Masks | list[Masks]:
    """Per mask the likeliest tokens; for a list of texts a list of these."""
    texts = texts_of(asked.inputs)
    model = call.models.find(asked.model, "fill")
    lengths = await _lengths(call, model, texts)
    if max(lengths) > model.predictor.limit:
        raise call.limits.too_long(max(lengths), model.predictor.limit, cuts=False)
    found = await call.run(Fill(model.predictor, asked.top), texts, lengths)
    shown: Masks | list[Masks] = _one_or_all(asked.inputs, found)
    return shown


class ScoreRequest(Struct):
    inputs: Texts
    whole_words: bool = False
    model: str | None = None


class Scored(Struct):
    score: float
    mean: float
    tokens: list[str]
    token_scores: list[float]


async def score(asked: ScoreRequest, call: Call) -> Scored | list[Scored]:
    """The (pseudo-)log-likelihood of each text and of its tokens."""
    texts = texts_of(asked.inputs)
    model = call.models.find(asked.model, "score")
    lengths = await _lengths(call, model, texts)
    # a masked model reads a text once per token
    masked = "masked" in model.predictor.heads
    costs = [n * min(n, model.predictor.limit) if masked else n for n in lengths]
    most = max(SCORED * call.limits.batch_tokens, model.predictor.limit)
    for length, cost in zip(lengths, costs, strict=True):
        if cost > most:
            raise call.limits.too_long(length, int(most**0.5) if masked else most, cuts=False)
    found = await call.run(Score(model.predictor, asked.whole_words), texts, costs)
    shown: Scored | list[Scored] = _one_or_all(asked.inputs, found)
    return shown


async def _lengths(call: Call, model: Served, texts: list[str]) -> list[int]:
    call.limits.check_inputs(len(texts))
    return [len(ids) for ids in await call.aside(lambda: model.predictor.tokenizer.ids(texts))]


def _one_or_all(given: Any, found: list[Any]) -> Any:
    return found if isinstance(given, list) else found[0]


class Words(Struct):
    words: list[str]


class TagRequest(Struct):
    inputs: str | Words | list[str | Words]
    model: str | None = None


class Entity(Struct):
    label: str
    word: str
    start: int
    end: int
    score: float


class Tagged(Struct):
    entities: list[Entity]
    text: str
    words: list[str]
    tags: list[str]


async def tag(asked: TagRequest, call: Call) -> Tagged | list[Tagged]:
    """Entities (or parts of speech) of texts, or of texts that are cut into words already."""
    model = call.models.find(asked.model, "tag")
    given = asked.inputs if isinstance(asked.inputs, list) else [asked.inputs]
    records = [{"text": one} if isinstance(one, str) else {"words": one.words} for one in given]
    found = await call.predictions(model, records)
    shown: Tagged | list[Tagged] = _one_or_all(asked.inputs, found)
    return shown


class Question(Struct):
    question: str
    context: str


class AnswerRequest(Struct):
    inputs: Question | list[Question]
    model: str | None = None


async def answer(asked: AnswerRequest, call: Call) -> dict[str, Any] | list[dict[str, Any]]:
    """The piece of the context that answers the question: answer, start, end, score, others."""
    model = call.models.find(asked.model, "answer")
    given = asked.inputs if isinstance(asked.inputs, list) else [asked.inputs]
    records = [msgspec.structs.asdict(one) for one in given]
    found = await call.predictions(model, records)
    shown: dict[str, Any] | list[dict[str, Any]] = _one_or_all(asked.inputs, found)
    return shown


class Choice(Struct):
    context: str
    choices: Annotated[list[str], Meta(min_length=1, max_length=64)]
    question: str = ""


class ChooseRequest(Struct):
    inputs: Choice | list[Choice]
    truncate: bool | None = None
    model: str | None = None


class Chosen(Struct):
    label: int
    choice: str
    score: float
    scores: list[float]


async def choose(asked: ChooseRequest, call: Call) -> Chosen | list[Chosen]:
    """The right one of several choices, with the scores of all."""
    model = call.models.find(asked.model, "choose")
    given = asked.inputs if isinstance(asked.inputs, list) else [asked.inputs]
    records = [
        {k: v for k, v in msgspec.structs.asdict(one).items() if v != ""} | {"context": one.context}
        for one in given
    ]
    found = await call.predictions(model, records, asked.truncate)
    shown: Chosen | list[Chosen] = _one_or_all(asked.inputs, found)
    return shown


class GenerateRequest(Struct):
    inputs: str
    max_new_tokens: Annotated[int, Meta(ge=1)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=100)] | None = None
    top_k: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    beams: Annotated[int, Meta(ge=1, le=16)] | None = None
    seed: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    stream: bool = False
    truncate: bool | None = None
    model: str | None = None


class Generated(Struct):
    text: str
    ids: list[int]


async def generate(asked: GenerateRequest, call: Call) -> Generated | AsyncIterator[bytes]:
    """A continuation; with `stream` server-sent events: {"text": so far, "id": the new token},
    and at the end the event `done` with text and ids."""
    model = call.models.find(asked.model, "generate")
    how = _how(asked, model)
    question = await call.aside(lambda: prepare(model.predictor, asked.inputs))
    if asked.max_new_tokens is None:  # as many as usual, or as there is room for
        # T5 writes into a room of its own
        read = 1 if has_halves(model.predictor) else len(question.ids)
        most = min(how.longest, max(1, model.predictor.limit - read), call.limits.new_tokens)
        how = dataclasses.replace(how, longest=most)
    if how.longest > call.limits.new_tokens:
        raise Refusal("Validation", f"max_new_tokens may be {call.limits.new_tokens} at most here")
    room = room_before(model.predictor, how)
    if len(question.ids) > max(room, 0):
        if not call.cut(asked.truncate) or room < 1 or question.prefix:
            raise call.limits.too_long(len(question.ids), max(room, 0))
        if has_halves(model.predictor):  # a source is cut at its end, as inputs are, but has one
            ids = [*question.ids[: room - 1], question.ids[-1]]
        else:
            ids = question.ids[-room:]  # what stands nearest to the new text counts most
        question = dataclasses.replace(question, ids=ids, segments=question.segments[:room])
    if not asked.inputs.strip() or not question.ids:
        raise Refusal("Empty", "`inputs` cannot be empty")
    if asked.stream:
        return _events(call, model, question, how)
    job = call.submit(Write(model.predictor, how), [question], [_cost(question, how)])
    (written,) = await call.wait(job)
    return Generated(text_of(model.predictor, written.ids, question), list(written.ids))


def _how(asked: GenerateRequest, model: Served) -> Writing:
    given = {"longest": asked.max_new_tokens}
    given |= {n: getattr(asked, n) for n in ("temperature", "top_k", "top_p", "beams", "seed")}
    try:
        return dataclasses.replace(
            usual(model.predictor), **{k: v for k, v in given.items() if v is not None}
        )
    except UserError as error:
        raise Refusal("Invalid", str(error)) from error


def _cost(question: Asked, how: Writing) -> int:
    return len(question.ids) + how.longest * how.beams


def _events(call: Call, model: Served, question: Asked, how: Writing) -> AsyncIterator[bytes]:
    """Queues the work (so that a full queue is told before the stream begins); then the events."""
    loop, news = asyncio.get_running_loop(), asyncio.Queue[tuple[int, ...]]()
    gone = threading.Event()

    def tell(ids: tuple[int, ...]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(news.put_nowait, ids)

    heard = dataclasses.replace(question, tell=tell, gone=gone.is_set)
    job = call.submit(Write(model.predictor, how), [heard], [_cost(question, how)])
    job.future.add_done_callback(lambda _: news.put_nowait(()))

    async def events() -> AsyncIterator[bytes]:
        told = 0
        try:
            while ids := await news.get():
                told = len(ids)
                yield _event({"text": text_of(model.predictor, ids, question), "id": ids[-1]})
            (written,) = job.future.result()
            text = text_of(model.predictor, written.ids, question)
            if how.beams == 1 and told < len(written.ids):  # the last one, which none followed
                yield _event({"text": text, "id": written.ids[-1]})
            yield b"event: done\n" + _event({"text": text, "ids": list(written.ids)})
        except Exception:  # the status has been sent: what is left is to say so in the stream
            yield b"event: error\n" + _event({"error": "Inference failed", "error_type": "Backend"})
        finally:
            gone.set()
            if not job.future.done():
                call.batcher.drop(job)

    return events()


def _event(value: Any) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"
