"""Routes of text-embeddings-inference, with its fields and its answers."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from tianci import __version__
from tianci.goals.tasks.classify import Classify
from tianci.serve.call import Call, Direction
from tianci.serve.inputs import Input, Texts, prompted, read_inputs, several, texts_of
from tianci.serve.models import Served
from tianci.serve.refusal import Refusal
from tianci.serve.work import Embed, EmbedAll, trained_head

Pairs = str | list[str | list[str]]


class EmbedRequest(Struct):
    inputs: Input
    normalize: bool = True
    truncate: bool | None = None
    truncation_direction: Direction = "Right"
    prompt_name: str | None = None
    dimensions: Annotated[int, Meta(ge=1)] | None = None
    model: str | None = None


class EmbedAllRequest(Struct):
    inputs: Input
    truncate: bool | None = None
    truncation_direction: Direction = "Right"
    prompt_name: str | None = None
    model: str | None = None


class PredictRequest(Struct):
    inputs: Pairs
    raw_scores: bool = False
    truncate: bool | None = None
    truncation_direction: Direction = "Right"
    model: str | None = None


class Prediction(Struct):
    score: float
    label: str


class RerankRequest(Struct):
    query: str
    texts: list[str]
    raw_scores: bool = False
    return_text: bool = False
    truncate: bool | None = None
    truncation_direction: Direction = "Right"
    model: str | None = None


class Rank(Struct, omit_defaults=True):
    index: int
    score: float
    text: str | None = None


class SimilarityInput(Struct):
    source_sentence: str
    sentences: list[str]


class SimilarityParameters(Struct):
    truncate: bool | None = None
    truncation_direction: Direction = "Right"
    prompt_name: str | None = None


class SimilarityRequest(Struct):
    inputs: SimilarityInput
    parameters: SimilarityParameters | None = None
    model: str | None = None


class TokenizeRequest(Struct):
    inputs: Texts
    add_special_tokens: bool = True
    model: str | None = None


class SimpleToken(Struct):
    id: int
    text: str  # as it stands in the input; of special tokens their name
    special: bool
    start: int | None
    stop: int | None
    token: str  # as it stands in the vocabulary


async def embed(asked: EmbedRequest, call: Call) -> list[list[float]]:
    """One vector per input."""
    model = call.models.find(asked.model, "embed")
    texts = prompted(model, several(asked.inputs), asked.prompt_name)
    ids = await read_inputs(call, model, texts, asked.truncate, asked.truncation_direction)
    found = await call.run(Embed(model.predictor, asked.normalize), ids, [len(one) for one in ids])
    return [shorten(one, asked.dimensions, asked.normalize).tolist() for one in found]


def shorten(vector: NDArray[Any], dimensions: int | None, normalize: bool) -> NDArray[Any]:
    """The first numbers of a vector, made as long as before; for models trained that way."""
    if dimensions is None or dimensions == len(vector):
        return vector
    if dimensions > len(vector):
        raise Refusal("Invalid", f"the vectors have {len(vector)} dimensions, not {dimensions}")
    cut = vector[:dimensions]
    return cut / max(1e-12, float(np.linalg.norm(cut))) if normalize else cut


async def embed_all(asked: EmbedAllRequest, call: Call) -> list[list[list[float]]]:
    """One vector per token of each input."""
    model = call.models.find(asked.model, "embed")
    texts = prompted(model, several(asked.inputs), asked.prompt_name)
    ids = await read_inputs(call, model, texts, asked.truncate, asked.truncation_direction)
    found = await call.run(EmbedAll(model.predictor), ids, [len(one) for one in ids])
    return [one.tolist() for one in found]


async def predict(asked: PredictRequest, call: Call) -> list[Prediction] | list[list[Prediction]]:
    """Labels with their scores, best first: a list for one input, a list of lists for a batch.

    One input is a text or a pair ["a", "b"]; a batch is a list of ["a"] and ["a", "b"]."""
    texts, single = _texts(asked.inputs)
    pairs = bool(texts) and all(len(one) == 2 for one in texts)
    model = call.models.find(asked.model, "predict", lambda one: reads_pairs(one) == pairs)
    records = [dict(zip(("text", "pair"), one, strict=False)) for one in texts]
    task, _, said = await call.ask(model, records, asked.truncate, asked.truncation_direction)
    found = [ranked(task.labels, one) for one in class_scores(model, said, asked.raw_scores)]
    return found[0] if single else found


def reads_pairs(model: Served) -> bool:
    """Whether it was trained on pairs of texts, and only on these."""
    return model.task is not None and model.task.name == "pair"


def _texts(inputs: Pairs) -> tuple[list[list[str]], bool]:
    """One or two texts per input, and whether there is only one input."""
    if isinstance(inputs, str):
        return [[inputs]], True
    words = [one for one in inputs if isinstance(one, str)]
    lists = [one for one in inputs if not isinstance(one, str)]
    if words and lists:
        raise Refusal("Invalid", '`inputs` mixes texts and lists; a batch is [["a"], ["b", "c"]]')
    if words:
        lists = [words]
    if any(len(one) not in (1, 2) for one in lists):
        raise Refusal("Invalid", 'an input is one text or two; a batch is [["a"], ["b", "c"], ...]')
    return lists, bool(words)


def class_scores(model: Served, said: list[Any], raw: bool) -> list[NDArray[Any]]:
    """Probabilities of all labels, or logits; a number that our own regress learned stays one."""
    task = model.predictor.task
    about = model.predictor.checkpoint.about
    if isinstance(task, Classify) and not raw:
        return list(task.probabilities(said, about.get("decision") or {}))
    logits = [np.asarray(one, np.float64) for one in said]
    if raw or about.get("task"):
        return logits
    return [1 / (1 + np.exp(-one)) for one in logits]  # a public head with one output


def ranked(labels: tuple[str, ...], scores: NDArray[Any]) -> list[Prediction]:
    names = labels or ("LABEL_0",)
    order = sorted(range(len(scores)), key=lambda n: (-scores[n], n))
    return [Prediction(float(scores[n]), names[n]) for n in order]


async def rerank(asked: RerankRequest, call: Call) -> list[Rank]:
    """Texts by how well they answer the query, best first."""
    model = call.models.find(asked.model, "rerank")
    call.limits.check_inputs(len(asked.texts))
    if trained_head(model.predictor) is not None:
        scores = await cosines(call, model, asked.query, asked.texts, asked)
    else:
        records = [{"text": asked.query, "pair": text} for text in asked.texts]
        _, _, said = await call.ask(model, records, asked.truncate, asked.truncation_direction)
        # of two labels the second is the one that is looked for; of one there is no choice
        scores = [float(one[-1]) for one in class_scores(model, said, asked.raw_scores)]
    order = sorted(range(len(scores)), key=lambda n: (-scores[n], n))
    return [Rank(n, scores[n], asked.texts[n] if asked.return_text else None) for n in order]


async def cosines(
    call: Call,
    model: Served,
    query: str,
    texts: list[str],
    how: RerankRequest | SimilarityParameters,
    prompt: str | None = None,
) -> list[float]:
    """How near texts lie to a query."""
    inputs = prompted(model, [query, *texts], prompt)
    ids = await read_inputs(call, model, inputs, how.truncate, how.truncation_direction)
    first, *others = await call.run(Embed(model.predictor, True), ids, [len(one) for one in ids])
    # rounding must not lead beyond what a cosine can be
    return [float(np.clip(np.dot(first.astype(np.float64), one), -1, 1)) for one in others]


async def similarity(asked: SimilarityRequest, call: Call) -> list[float]:
    """The cosine of each sentence with the source sentence."""
    how = asked.parameters or SimilarityParameters()
    model = call.models.find(asked.model, "similarity")
    call.limits.check_inputs(len(asked.inputs.sentences))
    source, sentences = asked.inputs.source_sentence, asked.inputs.sentences
    return await cosines(call, model, source, sentences, how, how.prompt_name)


async def tokenize(asked: TokenizeRequest, call: Call) -> list[list[SimpleToken]]:
    """The tokens of each input, with offsets in characters."""
    texts = texts_of(asked.inputs)
    call.limits.check_inputs(len(texts))
    tokenizer = call.models.find(asked.model, "tokenize").predictor.tokenizer

    def encode() -> list[list[SimpleToken]]:
        found = []
        for text, one in zip(
            texts, tokenizer.encode(texts, special=asked.add_special_tokens), strict=True
        ):
            rows = zip(one.ids, one.tokens, one.special, one.offsets, strict=True)
            found.append(
                [
                    SimpleToken(i, token, True, None, None, token)
                    if special
                    else SimpleToken(i, text[start:stop], False, start, stop, token)
                    for i, token, special, (start, stop) in rows
                ]
            )
        return found

    return await call.aside(encode)


async def info(asked: None, call: Call) -> dict[str, Any]:
    """What is served, and the limits."""
    if not call.models.served:
        return {"model_id": None, "version": __version__, "models": []}  # tianci page
    first, limits = call.models.served[0], call.limits
    labels = first.predictor.checkpoint.labels or (first.task.labels if first.task else ())
    classes = {
        "id2label": {str(n): label for n, label in enumerate(labels)},
        "label2id": {label: n for n, label in enumerate(labels)},
    }
    if "predict" in first.abilities:
        kind: dict[str, Any] = {"reranker" if len(labels) == 1 else "classifier": classes}
    else:
        kind = {"embedding": {"pooling": first.predictor.defaults.get("pooling", "mean")}}
    return {
        "model_id": first.name,
        "model_sha": None,
        "model_dtype": str(first.predictor.model.token_table().dtype).removeprefix("torch."),
        "model_type": kind,
        "max_concurrent_requests": limits.concurrent,
        "max_input_length": first.limit,
        "max_batch_tokens": limits.batch_tokens,
        "max_batch_requests": None,
        "max_client_batch_size": limits.inputs,
        "auto_truncate": limits.truncate,
        "tokenization_workers": 1,
        "version": __version__,
        "models": [one.about for one in call.models.served],
    }
