"""How near we come to what the machine can do: share of its float32 peak, one thread and two.

    python benchmarks/peak.py [--rounds 5] [--seconds 2] [--size base]

All rows run in turn in processes of their own (arena.py), float32, with one thread and with all.
The peak is a large product in torch (oneDNN) in the same run, so a busy neighbour takes from both.
Operations are those of the tokens that are there (`Encoder.flops`, three times it for training):
padding and what is computed twice do not count as work.

- **inference**: 32 ragged texts (mean 40 tokens) in arrival order, in the engines that are there.
- **training**: forward, backward and AdamW of masked + next_sentence, ragged pairs of up to 128.
- **attention**: one self-attention layer (768 wide, 12 heads, projections included) beside its four
  projections alone, 4,096 tokens in texts of 16 to 512: what the length costs.
"""

from __future__ import annotations

import argparse
import os
import statistics
from importlib.util import find_spec
from typing import Any

from arena import Contestant, machine, read_options

ATTENTION_LENGTHS = (16, 32, 64, 128, 256, 512)
HERE = "peak:"


def product(threads: int) -> tuple[Any, float]:
    """The best this library does with a large product; counted in billions of operations."""
    import torch

    torch.set_num_threads(threads)
    a, b = torch.randn(4096, 1024), torch.randn(1024, 4096)
    out = torch.empty(4096, 4096)
    return lambda: torch.mm(a, b, out=out), 2 * 4096 * 1024 * 4096 / 1e9


def inference(size: str, engine: str, threads: int) -> tuple[Any, float]:
    os.environ["BENCH_THREADS"] = str(threads)
    import inference_peers

    call, _ = inference_peers.ours(size, "ragged", engine)
    lengths = [len(row) for batch in inference_peers.batches("ragged") for row in batch]
    return call, operations(size, lengths)


def operations(size: str, lengths: list[int]) -> float:
    """Billions of operations of one forward pass over texts of these lengths."""
    import inference_peers

    from tianci.models import bert

    layers, width, hidden, heads = inference_peers.SIZES[size]
    sizes = bert.Config(width=width, layers=layers, heads=heads, hidden=hidden)
    model = bert.build(sizes)
    return sum(n * model.flops(n) for n in lengths) / 1e9


def training(size: str, threads: int) -> tuple[Any, float]:
    import pretrain
    import torch

    from tianci import checkpoint
    from tianci.train.probe import training_flops

    torch.set_num_threads(threads)
    call, tokens = pretrain.ours(size, "ragged")
    tokenizer, examples, pool, parts = pretrain.material("ragged")
    sizes = pretrain.sizes(size, len(tokenizer), 0.1)
    model = checkpoint.create("bert", sizes, examples.recipe.goal.heads)
    lengths = [int(pool.lengths[n]) for part in parts for n in part]
    assert sum(lengths) == tokens
    return call, sum(n * training_flops(model, n) for n in lengths) / 1e9


def attention(length: int, whole: bool, threads: int) -> tuple[Any, int]:
    import torch

    from tianci.batch import Layout
    from tianci.models import bert

    torch.set_num_threads(threads)
    layer = bert.build(bert.Config(layers=1)).stack.blocks[0].attention.part.eval()
    layout = Layout([length] * (4096 // length))
    x = torch.randn(4096, 768)

    @torch.inference_mode()
    def call() -> None:
        if whole:
            layer(x, layout)
        else:
            layer.out(layer.qkv(x)[:, :768])

    return call, 4096


def turns(field: list[tuple[str, str, dict[str, Any]]], rounds: int, seconds: float) -> list[Any]:
    """The contestants after so many rounds in turn."""
    running = [Contestant(*one) for one in field]
    for r in range(rounds):
        for i in range(len(running)):
            running[(i + r) % len(running)].turn(seconds)
    for one in running:
        one.stop()
    return running


def rates(one: Any) -> list[float]:
    return [one.tokens / taken for taken in one.times]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--size", default="base", help="base, or a smaller one to look")
    options = read_options(parser, rounds=2, seconds=0.5)
    print(machine())
    most = os.cpu_count() or 1
    engines = [
        name
        for name, module in (("torch", "torch"), ("openvino", "openvino"), ("onnx", "onnxruntime"))
        if find_spec(module)
    ]
    rows: list[tuple[str, str, dict[str, Any]]] = [("large product", "product", {})]
    rows += [
        (f"{options.size}, inference, {engine}", "inference",
         {"size": options.size, "engine": engine})
        for engine in engines
    ]  # fmt: skip
    rows += [
        (f"{size}, training", "training", {"size": size})
        for size in dict.fromkeys(("small", options.size))
        if size in ("mini", "small", "base")
    ]
    counts = sorted({1, most})
    field = [
        (f"{name} / {n}", HERE + target, {**given, "threads": n})
        for n in counts
        for name, target, given in rows
    ]
    found = turns(field, options.rounds, options.seconds)
    by = {one.name: one for one in found}
    print(f"\n### Share of the float32 peak, {' and '.join(map(str, counts))} threads\n")
    print("| | " + " | ".join(f"GFLOP/s, {n} | share, {n}" for n in counts) + " | more threads |")
    print("|---|" + "---|---|" * len(counts) + "---|")
    for name, _, _ in rows:
        cells = []
        for n in counts:
            own, best = rates(by[f"{name} / {n}"]), rates(by[f"large product / {n}"])
            share = statistics.median(a / b for a, b in zip(own, best, strict=True))
            cells.append(f"{statistics.median(own):.0f} | {share:.0%}")
        few, many = rates(by[f"{name} / {counts[0]}"]), rates(by[f"{name} / {most}"])
        gain = statistics.median(b / a for a, b in zip(few, many, strict=True))
        print(f"| {name} | {' | '.join(cells)} | {gain:.2f} |", flush=True)

    print(f"\n### Attention by length, {most} threads, 4,096 tokens\n")
    field = [
        (f"{length} {whole}", HERE + "attention",
         {"length": length, "whole": whole, "threads": most})
        for length in ATTENTION_LENGTHS
        for whole in (True, False)
    ]  # fmt: skip
    by = {one.name: one for one in turns(field, options.rounds, options.seconds / 4)}
    print("| tokens of a text | layer (ms) | its projections alone (ms) | attention (ms) |")
    print("|---|---|---|---|")
    for length in ATTENTION_LENGTHS:
        whole, part = (statistics.median(by[f"{length} {w}"].times) * 1e3 for w in (True, False))
        print(f"| {length} | {whole:.1f} | {part:.1f} | {whole - part:.1f} |", flush=True)


if __name__ == "__main__":
    main()
