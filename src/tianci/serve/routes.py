"""The table of routes: path, what is asked, what is answered, who answers."""

from __future__ import annotations

import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from tianci.serve import inside, openai, own, run_routes, tei


@dataclass(frozen=True)
class Route:
    """One thing that can be asked."""

    method: str
    path: str
    function: Callable[[Any, Any], Any]
    example: Any = None  # a body
    query: tuple[str, ...] = ()  # names that may stand behind "?"
    headers: tuple[str, ...] = ()  # names of headers that mean something here

    @property
    def asked(self) -> Any:
        """The type of the body; None without one."""
        found = typing.get_type_hints(self.function)["asked"]
        return None if found is type(None) else found

    @property
    def answered(self) -> Any:
        """The type of the answer."""
        return typing.get_type_hints(self.function)["return"]

    @property
    def summary(self) -> str:
        return " ".join((self.function.__doc__ or "").split())

    @property
    def streams(self) -> bool:
        return self.path == "/generate" or self.path.endswith("/stream")

    def parameters(self, request: Request) -> dict[str, str]:
        """What a request says besides its body: in the path, behind "?", in its head."""
        found = {name: str(value) for name, value in request.path_params.items()}
        found |= {k: request.query_params[k] for k in self.query if k in request.query_params}
        return found | {k: request.headers[k] for k in self.headers if k in request.headers}


_QUESTION = {"question": "Who sat?", "context": "The cat sat on the mat."}
_CHOICE = {"context": "It rains.", "question": "Take", "choices": ["an umbrella", "a hat"]}
_SENTENCES = {"source_sentence": "rain", "sentences": ["it rains", "the sun shines"]}

ROUTES = (
    Route("POST", "/v1/embeddings", openai.embeddings, {"input": "What is Deep Learning?"}),
    Route("GET", "/v1/models", openai.models),
    Route("GET", "/v1/models/{name}", openai.model),
    Route("POST", "/embed", tei.embed, {"inputs": "What is Deep Learning?"}),
    Route("POST", "/embed_all", tei.embed_all, {"inputs": "What is Deep Learning?"}),
    Route("POST", "/predict", tei.predict, {"inputs": "I like you."}),
    Route("POST", "/rerank", tei.rerank, {"query": "rain", "texts": ["it rains", "sun"]}),
    Route("POST", "/similarity", tei.similarity, {"inputs": _SENTENCES}),
    Route("POST", "/tokenize", tei.tokenize, {"inputs": "What is Deep Learning?"}),
    Route("GET", "/info", tei.info),
    Route("POST", "/fill", own.fill, {"inputs": "今天天气[MASK]错", "top": 3}),
    Route("POST", "/score", own.score, {"inputs": ["我忘带伞了", "我网袋散了"]}),
    Route("POST", "/tag", own.tag, {"inputs": "Kim lives in Oslo"}),
    Route("POST", "/answer", own.answer, {"inputs": _QUESTION}),
    Route("POST", "/choose", own.choose, {"inputs": _CHOICE}),
    Route("POST", "/generate", own.generate, {"inputs": "Once", "stream": True}),
    Route("POST", "/attribute", inside.attribute, {"inputs": "I like you."}),
    Route("POST", "/attention", inside.attention, {"inputs": "The cat sat on the mat."}),
    Route("GET", "/runs", run_routes.runs),
    Route("GET", "/runs/{id}", run_routes.run),
    Route("GET", "/runs/{id}/log", run_routes.run_log, query=("after",)),
    Route(
        "GET", "/runs/{id}/stream", run_routes.run_stream, query=("after",),
        headers=("last-event-id",),
    ),
    Route("GET", "/runs/{id}/report", run_routes.run_report),
)  # fmt: skip
