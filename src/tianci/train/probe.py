"""What this machine can do: speed of a model, of plain products, and whether bf16 is faster."""

from __future__ import annotations

import dataclasses
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Literal

import torch

from tianci.batch import Batch, Layout
from tianci.checkpoint import Checkpoint, create
from tianci.goals.base import Joint
from tianci.goals.objectives import parse
from tianci.models import family
from tianci.train.loop import Learner, autocast

WIDE = 256  # from here on bf16 may pay on a CPU

BF16_PROBE = """
import time, torch
torch.set_num_threads({threads})
def seconds(dtype):  # the best of several: other work on the machine decides nothing
    a, b = torch.ones(1024, 512, dtype=dtype), torch.ones(512, 1024, dtype=dtype)
    taken = []
    for _ in range(12):
        began = time.perf_counter()
        a @ b
        taken.append(time.perf_counter() - began)
    return min(taken)
print(seconds(torch.float32) / seconds(torch.bfloat16))
"""


@cache
def bf16_speed() -> float | None:
    """How many times faster the CPU is with products in bf16 than in float32; None: not usable.

    This is tried in another process: some virtual machines announce bf16 instructions
    that end the process when they are used.
    """
    code = BF16_PROBE.format(threads=torch.get_num_threads())
    try:
        result = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    # the last word: with ONEDNN_VERBOSE the library writes there too
    return float(result.stdout.split()[-1]) if result.returncode == 0 else None


def bf16_is_faster(device: str) -> bool:
    """Whether products in bf16 are clearly faster here."""
    if device != "cpu":
        return bool(torch.cuda.is_bf16_supported())
    return (bf16_speed() or 0.0) > 1.3


def precision(
    wanted: Literal["auto", "float32", "bf16"], device: str, width: int
) -> Literal["float32", "bf16"]:
    """bf16 or float32: as wanted, or by what this machine does with models of that width.

    On a CPU whose products are twice as fast in bf16 a step is 1.9 times as fast from a width of
    256 on, 1.3 to 1.6 times at 128 (LOG.md). Narrow models are fast enough, and seldom worth the
    second that trying costs.
    """
    if wanted != "auto":
        return wanted
    wide = device != "cpu" or width >= WIDE
    return "bf16" if wide and bf16_is_faster(device) else "float32"


@cache
def peak_flops(precision: Literal["float32", "bf16"]) -> float:
    """Operations per second of a large product, the best of a few."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = torch.ones(1536, 1024, dtype=dtype), torch.ones(1024, 1536, dtype=dtype)
    best = min(_seconds(lambda: a @ b) for _ in range(5))
    return 2 * 1536 * 1024 * 1536 / best


def tokens_per_second(
    model: Checkpoint, goal: Joint, batch: Batch, device: str, bf16: bool
) -> float:
    """Training speed on one batch: forward and backward, no step, weights as they were."""
    learner = Learner(model, goal).train()
    batch = batch.to(device)
    counts = goal.count(batch)

    def once() -> None:
        with autocast(bf16, device):
            loss, _ = learner(batch, counts)
            loss.backward()

    once()
    seconds = statistics.median(_seconds(once) for _ in range(3))
    learner.zero_grad(set_to_none=True)
    return batch.layout.tokens / seconds


def random_batch(vocabulary: int, length: int, rows: int, rate: float = 0.15) -> Batch:
    """A batch of the usual shape for measuring."""
    generator = torch.Generator().manual_seed(0)
    total = length * rows
    places = torch.randperm(total, generator=generator)[: int(total * rate)].sort().values
    tokens = torch.randint(0, vocabulary, (total,), generator=generator)
    return Batch(
        tokens,
        Layout([length] * rows),
        torch.zeros(total, dtype=torch.int64),
        {
            "masked_at": places,
            "masked_is": tokens[places],
            "label": torch.zeros(rows, dtype=torch.int64),
        },
    )


def training_flops(model: Checkpoint, length: int, rate: float = 0.15) -> float:
    """Operations per token of a training step: three times the forward pass, head included."""
    width, rows = model.model.token_table().shape[1], model.model.token_table().shape[0]
    head = 0.0
    if "masked" in model.heads:
        # the last block is finished for the masked tokens only (nn/stack.py)
        config = model.model.config
        finish = 2 * (config.width**2 + 2 * config.width * config.hidden) if config.layers else 0
        head = rate * 2 * (width * rows + width**2) - (1 - rate) * finish
    head += 2 * width * rows if "causal" in model.heads else 0.0  # every token is guessed
    head += rate * 2 * width * rows if "generation" in model.heads else 0.0
    return 3 * (model.model.flops(length) + head)


def training_bytes(model: Checkpoint, batch_tokens: int, rate: float = 0.15) -> int:
    """About how much memory training takes: weights, gradients and two moments, and activations."""
    config = model.model.config
    weights = 16 * model.parameter_count
    per_token = config.layers * (12 * config.width + 2 * config.hidden) * 4
    logits = rate * config.vocabulary * 4 * 2
    return int(weights + batch_tokens * (per_token + logits))


def minutes_per_epoch(vocabulary: int, tokens: int, length: int = 128) -> dict[str, float]:
    """About how long one pass over so many tokens takes here, for each preset of BERT.

    tiny and mini are tried for a second; larger ones are reckoned from mini's operations per
    second.
    """
    goal = parse("masked+next_sentence")
    config = family("bert").PRESETS
    batch = random_batch(vocabulary, length, 16)
    minutes: dict[str, float] = {}
    per_second = 0.0
    for size in config:
        sizes = dataclasses.replace(config[size], vocabulary=vocabulary)
        tried = size in ("tiny", "mini")
        with torch.device("cpu" if tried else "meta"):  # the large ones are only counted
            model = create("bert", sizes, goal.heads)
        flops = training_flops(model, length)
        if tried:
            for part in model.model.modules():
                if hasattr(part, "dropout"):
                    setattr(part, "dropout", 0.0)  # noqa: B010  (torch types it as a module)
            bf16 = precision("auto", "cpu", sizes.width) == "bf16"
            speed = tokens_per_second(model, goal, batch, "cpu", bf16)
            per_second = speed * flops
        minutes[size] = tokens * flops / per_second / 60
    return minutes


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
