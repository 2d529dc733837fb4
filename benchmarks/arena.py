"""Contestants in processes of their own, taking turns: noise of the machine hits all alike.

A contestant is "module:function"; the function returns (call, tokens): one unit of work, and how
many real tokens it covers. Reported: median over rounds, and the median over rounds of the ratio
to the first.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


class Contestant:
    def __init__(self, name: str, target: str, arguments: dict[str, Any]):
        self.name, self.times, self.peak = name, [], 0.0
        path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
        self.process = subprocess.Popen(
            [sys.executable, __file__, target, json.dumps(arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        self.tokens = self._hear()["tokens"]

    def _hear(self) -> dict[str, Any]:
        line = self.process.stdout.readline() if self.process.stdout else ""
        if not line:
            raise SystemExit(f"{self.name} died; its messages are above")
        return json.loads(line)

    def turn(self, seconds: float) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"seconds": seconds}) + "\n")
        self.process.stdin.flush()
        answer = self._hear()
        self.times.append(answer["time"])
        self.peak = answer["peak_mb"]

    def stop(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def battle(
    title: str, contestants: list[tuple[str, str, dict[str, Any]]], rounds: int, seconds: float
) -> None:
    """Prints one table; the first contestant is the base of the ratios."""
    field = [Contestant(*c) for c in contestants]
    for r in range(rounds):
        for i in range(len(field)):
            field[(i + r) % len(field)].turn(seconds)
    print(f"\n### {title}\n\n| contestant | ms per call | real tokens/s | ratio | peak MB |")
    print("|---|---|---|---|---|")
    for c in field:
        ratios = [base / own for base, own in zip(field[0].times, c.times, strict=True)]
        ratios = [r * c.tokens / field[0].tokens for r in ratios]
        median = statistics.median(c.times)
        print(
            f"| {c.name} | {median * 1e3:.0f} | {c.tokens / median:,.0f} "
            f"| {statistics.median(ratios):.2f} | {c.peak:.0f} |",
            flush=True,
        )
        c.stop()


def padding(batches: Iterable[Sequence[int]]) -> float:
    """Places that a peer computes for each real token, when it pads to the longest of a batch."""
    made = [list(lengths) for lengths in batches]
    return sum(len(one) * max(one) for one in made) / sum(map(sum, made))


def read_options(parser: argparse.ArgumentParser, **short: Any) -> argparse.Namespace:
    """The options as given; with --short the defaults become these smaller ones."""
    parser.add_argument("--short", action="store_true", help="minutes, not hours: only to look")
    told = parser.parse_args()
    if told.short:
        parser.set_defaults(**short)
        told = parser.parse_args()
    return told


def machine() -> str:
    import torch

    return (
        f"{time.strftime('%Y-%m-%d')}, {platform.machine()}, {os.cpu_count()} cores, "
        f"torch {torch.__version__}, {torch.get_num_threads()} threads"
    )


def work() -> None:
    """One contestant: prepares, warms up, then answers requests on standard input."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # libraries that print must not disturb the conversation
    module, _, function = sys.argv[1].partition(":")
    call, tokens = getattr(importlib.import_module(module), function)(**json.loads(sys.argv[2]))
    call()
    out.write(json.dumps({"tokens": tokens}) + "\n")
    for line in sys.stdin:
        wanted, times = json.loads(line)["seconds"], []
        while sum(times) < wanted:
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        out.write(json.dumps({"time": statistics.median(times), "peak_mb": peak}) + "\n")


if __name__ == "__main__":
    work()
