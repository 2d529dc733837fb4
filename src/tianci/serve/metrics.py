"""Counters for Prometheus. With several workers each process writes its own files into
PROMETHEUS_MULTIPROC_DIR (set by the parent), and any worker's /metrics adds them up."""

from __future__ import annotations

import os
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
TOKENS = (16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536)
TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """What one server process counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        at = self.registry
        self.requests = Counter(
            "tianci_requests", "requests", ["method", "route", "status"], registry=at
        )
        self.seconds = Histogram(
            "tianci_request_seconds", "from first byte to answer", ["route"], buckets=SECONDS,
            registry=at,
        )  # fmt: skip
        self.batch = Histogram(
            "tianci_batch_tokens", "tokens that ran together", buckets=TOKENS, registry=at
        )
        self.tokens = Counter("tianci_tokens", "tokens that were read (rate: per s)", registry=at)
        mode: Literal["livesum"] = "livesum"  # of the workers that live
        self.open = Gauge(
            "tianci_requests_open", "requests being answered", multiprocess_mode=mode, registry=at
        )
        self.waiting = Gauge(
            "tianci_queue_tokens", "tokens that wait", multiprocess_mode=mode, registry=at
        )
        self.inputs = Gauge(
            "tianci_queue_inputs", "inputs that wait", multiprocess_mode=mode, registry=at
        )

    def ran(self, inputs: int, tokens: int) -> None:
        """After each batch."""
        self.batch.observe(tokens)
        self.tokens.inc(tokens)

    def text(self) -> bytes:
        """All of it, of all workers where there are several."""
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self.registry)
        everyone = CollectorRegistry()
        MultiProcessCollector(everyone)  # type: ignore[no-untyped-call]
        return generate_latest(everyone)
