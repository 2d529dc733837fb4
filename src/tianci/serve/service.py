"""The state of one server process."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import dataclass, field

import torch

from tianci.serve.batcher import Batcher
from tianci.serve.crew import Crew
from tianci.serve.limits import Limits
from tianci.serve.log import AccessLog
from tianci.serve.metrics import Metrics
from tianci.serve.models import Models
from tianci.serve.plan import LOCAL
from tianci.serve.runs import Runs
from tianci.serve.work import warm


@dataclass
class Service:
    """Loaded or loading, ready or ending."""

    load: Callable[[], Models]
    limits: Limits = field(default_factory=Limits)
    key: str | None = None
    hosts: Collection[str] = LOCAL  # names it answers to while it has no key
    log: AccessLog = field(default_factory=AccessLog)
    runs: Runs | None = None  # training runs that may be looked at
    lanes: int = 2  # batches that may run side by side
    threads: int = 1  # of torch, for all lanes together
    crew: Crew = field(default_factory=Crew)  # the other workers

    def __post_init__(self) -> None:
        self.metrics = Metrics()
        limits = self.limits
        self.batcher = Batcher(
            limits.batch_tokens, limits.queue_tokens, self._ran, limits.queue_seconds,
            self.lanes, self.threads, torch.set_num_threads,
        )  # fmt: skip
        self.models: Models | None = None
        self.failed: Exception | None = None  # why loading ended
        self.draining = False
        self.open = 0  # requests that are being answered

    def start(self) -> Future[None]:
        """Begins to load the models, which may take long; the future ends with it."""
        return self.batcher.first(self._load)

    def _load(self) -> None:
        try:
            models = self.load()
            for one in models.served:
                one.abilities  # noqa: B018  (tries the model out: now, not at the first request)
                warm(one.predictor)
            # engines with threads of their own are made once more, for batches side by side
            torch.set_num_threads(max(1, self.threads // self.lanes))
            for one in models.served:
                warm(one.predictor)
            torch.set_num_threads(self.threads)
            self.models = models
            self.crew.tell()
        except Exception as error:
            self.failed = error

    @property
    def ready(self) -> bool:
        loaded = self.models is not None and self.crew.complete
        return loaded and not self.draining and not self.batcher.full

    def hosted(self, host: str) -> bool:
        """Whether a request may name this host. A web page that has pointed its own name at
        127.0.0.1 must not read our answers; whoever has the key is no such page."""
        if self.key is not None:
            return True
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        return name.lower() in self.hosts

    def _ran(self, inputs: int, tokens: int) -> None:
        self.metrics.ran(inputs, tokens)
        self.gauge()

    def gauge(self) -> None:
        """Brings the gauges up to date."""
        self.metrics.waiting.set(self.batcher.waiting)
        self.metrics.inputs.set(self.batcher.inputs)
