"""What a request is refused with: a status, a type and one sentence, in TEI's or OpenAI's form."""

from __future__ import annotations

from typing import Any

import msgspec

# text-embeddings-inference's types, and what it leaves to its framework
STATUS = {
    "Unhealthy": 503,
    "Backend": 424,  # the model cannot do this, or failed while doing it
    "Overloaded": 429,
    "Tokenizer": 422,
    "Validation": 413,  # too much: inputs, tokens, bytes
    "Empty": 400,
    "Malformed": 400,  # not JSON
    "Invalid": 422,  # JSON, but not the fields of this route
    "Unauthorized": 401,
    "NotFound": 404,
    "ModelNotFound": 404,
    "MethodNotAllowed": 405,
    "Timeout": 408,  # the body did not come
    "MediaType": 415,
    "WrongHost": 421,
    "Internal": 500,
}
OPENAI = {
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    424: "server_error",
    500: "server_error",
    503: "server_error",
}
CODES = {  # what OpenAI's clients look for; elsewhere the type's own name
    "ModelNotFound": "model_not_found",
    "Overloaded": "rate_limit_exceeded",
    "Unauthorized": "invalid_api_key",
}


class Refusal(Exception):  # noqa: N818  (an answer, not a failure of the program)
    """Why a request gets no answer; the sentence never repeats the request's text."""

    def __init__(self, kind: str, sentence: str, headers: dict[str, str] | None = None):
        super().__init__(sentence)
        self.kind, self.sentence, self.headers = kind, sentence, headers or {}

    @property
    def status(self) -> int:
        return STATUS[self.kind]


class ErrorResponse(msgspec.Struct):
    """TEI's form."""

    error: str
    error_type: str


class OpenAIProblem(msgspec.Struct):
    message: str
    type: str
    param: str | None
    code: str


class OpenAIErrorResponse(msgspec.Struct):
    """OpenAI's form, on /v1/ routes."""

    error: OpenAIProblem


def form(refusal: Refusal, path: str) -> Any:
    """The body of a refusal, as the clients of this path expect it."""
    if not path.startswith("/v1/"):
        return ErrorResponse(refusal.sentence, refusal.kind)
    kind = OPENAI.get(refusal.status, "invalid_request_error")
    code = CODES.get(refusal.kind, refusal.kind.lower())
    return OpenAIErrorResponse(OpenAIProblem(refusal.sentence, kind, None, code))
