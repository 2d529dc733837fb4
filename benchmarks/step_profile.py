"""Where one training step spends its time.

A step of pre-training (benchmarks/pretrain.py) or fine-tuning (benchmarks/finetune.py) runs under
torch's profiler; own time of the operators is summed by what they are for. The peak printed first
is the best large product in the same process.

    OMP_NUM_THREADS=1 python benchmarks/step_profile.py [--cases pretrain-mini-full,tune-small]
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from typing import Any

import torch
from arena import machine
from torch.profiler import ProfilerActivity, profile

KINDS = (
    ("products", ("addmm", "::mm", "bmm", "mkldnn", "linear")),
    ("attention kernel", ("_flash_attention",)),
    ("softmax", ("softmax",)),
    ("random numbers", ("random_", "bernoulli")),
    ("dropout", ("dropout", "xor", "threshold_backward", "Dropped", "Dropout")),
    ("norms", ("layer_norm",)),
    ("activation", ("gelu", "tanh")),
    ("optimizer", ("adam", "Optimizer")),
    ("clipping", ("norm", "foreach")),
    ("embedding", ("embedding", "index", "gather", "scatter")),
    ("copies", ("copy_", "clone", "contiguous", "cat", "zero", "fill", "empty", "AccumulateGrad")),
    ("adds", ("add", "mul", "div", "sub", "sum", "mean", "exp", "log", "max")),
)
CASES = (
    "pretrain-mini-full,pretrain-mini-ragged,pretrain-small-full,pretrain-small-ragged,tune-small"
)


def kind_of(operator: str) -> str:
    """What an operator is for."""
    return next((kind for kind, parts in KINDS if any(p in operator for p in parts)), "other")


def contestant(case: str) -> tuple[Any, int]:
    """(call, tokens) of one case, as the comparisons run it."""
    what, size, *kind = case.split("-")
    if what == "pretrain":
        import pretrain

        return pretrain.ours(size, kind[0])
    import finetune

    return finetune.ours(size, 128)


def peak() -> float:
    """The best rate of a large product here, in GFLOP/s."""
    a, b = torch.randn(2048, 1024), torch.randn(1024, 1024)
    best = float("inf")
    for _ in range(12):
        began = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - began)
    return 2 * 2048 * 1024 * 1024 / best / 1e9


def table(case: str, operators: int) -> None:
    """Prints the shares of one case."""
    call, tokens = contestant(case)
    call()
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        call()
    total, kinds = 0.0, Counter[str]()
    for event in seen.key_averages():
        total += event.self_cpu_time_total
        kinds[kind_of(event.key)] += event.self_cpu_time_total
    times = []
    for _ in range(3):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    print(f"\n### {case}: {min(times) * 1e3:.0f} ms, {tokens / min(times):,.0f} tokens/s\n")
    print("| for | share | ms |\n|---|---|---|")
    for kind, spent in kinds.most_common():
        print(f"| {kind} | {100 * spent / total:.1f} % | {spent / 1e3:.1f} |")
    ranked = sorted(seen.key_averages(), key=lambda e: -e.self_cpu_time_total)[:operators]
    for event in ranked:
        print(f"    {event.key}: {event.self_cpu_time_total / 1e3:.1f} ms, {event.count} times")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cases", default=CASES)
    parser.add_argument("--operators", type=int, default=0, help="show so many operators by name")
    given = parser.parse_args()
    print(machine(), f"peak {peak():.0f} GFLOP/s")
    for case in given.cases.split(","):
        table(case, given.operators)


if __name__ == "__main__":
    main()
