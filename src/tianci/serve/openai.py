"""Routes of OpenAI's API: vectors, and which models there are."""

from __future__ import annotations

import base64
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct

from tianci.serve.call import Call
from tianci.serve.inputs import Input, read_inputs, several
from tianci.serve.models import Served
from tianci.serve.refusal import Refusal
from tianci.serve.tei import shorten
from tianci.serve.work import Embed


class EmbeddingsRequest(Struct):
    input: Input
    model: str | None = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Meta(ge=1)] | None = None
    user: str | None = None


class Embedding(Struct):
    object: Literal["embedding"]
    embedding: list[float] | str
    index: int


class Usage(Struct):
    prompt_tokens: int
    total_tokens: int


class EmbeddingsResponse(Struct):
    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage


class ModelCard(Struct):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(Struct):
    object: Literal["list"]
    data: list[ModelCard]


async def embeddings(asked: EmbeddingsRequest, call: Call) -> EmbeddingsResponse:
    """Vectors of length 1, as numbers or as base64 of little-endian float32."""
    model = call.models.find(asked.model, "embed")
    ids = await read_inputs(call, model, several(asked.input), None)
    found = await call.run(Embed(model.predictor, True), ids, [len(one) for one in ids])
    data = []
    for index, vector in enumerate(found):
        vector = shorten(vector, asked.dimensions, True)
        if asked.encoding_format == "base64":
            shown: list[float] | str = base64.b64encode(
                vector.astype(np.dtype("<f4")).tobytes()
            ).decode()
        else:
            shown = vector.tolist()
        data.append(Embedding("embedding", shown, index))
    return EmbeddingsResponse("list", data, model.name, Usage(call.tokens, call.tokens))


async def models(asked: None, call: Call) -> ModelList:
    """The models by name; the `model` field of a request takes one of these."""
    return ModelList("list", [card(one) for one in call.models.served])


async def model(asked: None, call: Call) -> ModelCard:
    """One model."""
    name = call.parameters["name"]
    for one in call.models.served:
        if one.name == name:
            return card(one)
    raise Refusal("ModelNotFound", "no model of that name; /v1/models lists them")


def card(model: Served) -> ModelCard:
    return ModelCard(model.name, "model", int(model.folder.stat().st_mtime), "tianci")
