"""Pre-training (masked + next sentence): tianci beside transformers' BertForPreTraining.

Both train on the same examples cut from real text, length 128, 15 % masked, dropout 0.1, AdamW
(fused) and clipping. The peer is written as its documentation does it:
DataCollatorForLanguageModeling over batches of 32 examples, padded to the longest. "full" keeps
only full rows, "ragged" sentence pairs of natural length. One call is 4 steps. Where products in
bf16 are faster on this machine (`tianci doctor`), both run with it as well: autocast for the peer.

    python benchmarks/pretrain.py [--rounds 5] [--sizes mini,small]
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from arena import battle, machine, padding, read_options

ROWS, STEPS, LENGTH = 32, 4, 128
TEXT = Path(__file__).resolve().parents[2] / "shared" / "data" / "wiki_zh" / "train.txt.gz"


def material(kind: str) -> tuple[Any, Any, Any, list[np.ndarray]]:
    """(tokenizer, examples, pool, batches of example numbers), the same for every contestant."""
    from tianci.data.memory import MemoryStore
    from tianci.goals.objectives import parse
    from tianci.text.learn import Vocabulary, learn
    from tianci.train.examples import Examples, Position, Recipe

    with gzip.open(TEXT, "rt", encoding="utf-8") as file:
        lines = [next(file).rstrip("\n") for _ in range(12_000)]
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write("\n".join(lines))
        file.flush()
        tokenizer, _ = learn([file.name], Vocabulary(kind="char", size=8000, min_frequency=1))
    documents: list[list[list[int]]] = [[]]
    for ids in tokenizer.ids(lines, special=False):
        if ids:
            documents[-1].append(ids)
        elif documents[-1]:
            documents.append([])
    store = MemoryStore([d for d in documents if d])
    # ragged: pairs of about natural sentence length, as in question or review data
    recipe = Recipe(
        parse("masked+next_sentence"), LENGTH, 0.0 if kind == "full" else 1.0, ROWS * LENGTH, 0
    )
    examples = Examples(store, tokenizer, recipe)
    pool, _, _ = next(examples.draws(Position()))
    good = (
        np.flatnonzero(pool.lengths >= LENGTH - 3)
        if kind == "full"
        else np.arange(len(pool.lengths))
    )
    order = np.random.default_rng(0).permutation(good)[: ROWS * STEPS]
    return tokenizer, examples, pool, np.split(order, STEPS)


def sizes(size: str, vocabulary: int, dropout: float) -> Any:
    from tianci.models import preset

    config = preset(size)[1]
    return dataclasses.replace(
        config, vocabulary=vocabulary, dropout=dropout, attention_dropout=dropout
    )


def ours(size: str, kind: str, dropout: float = 0.1, bf16: bool = False) -> tuple[Any, int]:

    from tianci import checkpoint
    from tianci.train import optimizer
    from tianci.train.loop import Learner, autocast
    from tianci.train.memory import keep_few_kernels, keep_freed_memory
    from tianci.train.settings import Train

    keep_freed_memory()
    keep_few_kernels()
    tokenizer, examples, pool, parts = material(kind)
    goal = examples.recipe.goal
    model = checkpoint.create("bert", sizes(size, len(tokenizer), dropout), goal.heads)
    learner = Learner(model, goal).train()
    adam = optimizer.make([model.model, *model.heads.values()], Train(), 1e-4)
    parameters = list(learner.parameters())

    def call() -> None:
        # masks are drawn anew, as in training; the pool's own examples stay
        rng = np.random.default_rng(1)
        fresh = examples.assemble([example_of(pool, n) for part in parts for n in part], rng)
        for i in range(STEPS):
            batch = fresh.batch(np.arange(i * ROWS, (i + 1) * ROWS))
            with autocast(bf16, "cpu"):
                loss, _ = learner(batch, goal.count(batch))
                loss.backward()
            optimizer.clip(parameters, 1.0)
            adam.step()
            adam.zero_grad(set_to_none=True)

    return call, int(sum(pool.lengths[part].sum() for part in parts))


def example_of(pool: Any, number: int) -> Any:
    from tianci.goals.objectives.segments import Example

    a, b, c, d = pool.spans[number].tolist()
    return Example((a, b), (c, d), int(pool.labels[number]))


def transformers(size: str, kind: str, dropout: float = 0.1, bf16: bool = False) -> tuple[Any, int]:
    import torch
    import transformers as hf

    from tianci.checkpoint import config_to_public
    from tianci.models import bert

    tokenizer, _, pool, parts = material(kind)
    folder = tempfile.mkdtemp()
    tokenizer.save(folder)
    theirs = hf.AutoTokenizer.from_pretrained(folder)
    collate = hf.DataCollatorForLanguageModeling(theirs, mlm=True, mlm_probability=0.15)
    begins = np.cumsum(pool.lengths) - pool.lengths
    rows = [
        [
            {
                "input_ids": pool.original[begins[n] : begins[n] + pool.lengths[n]].tolist(),
                "token_type_ids": pool.segments[begins[n] : begins[n] + pool.lengths[n]].tolist(),
                "next_sentence_label": int(pool.labels[n]),
            }
            for n in part
        ]
        for part in parts
    ]
    config = hf.BertConfig(**config_to_public(bert.PUBLIC, sizes(size, len(tokenizer), dropout)))
    model = hf.BertForPreTraining(config).train()
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def call() -> None:
        for part in rows:
            batch = collate([dict(row) for row in part])
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            adam.step()
            adam.zero_grad(set_to_none=True)

    return call, int(sum(pool.lengths[part].sum() for part in parts))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default="mini,small")
    arguments = read_options(parser, rounds=1, sizes="mini")
    if not TEXT.exists():
        print("skipped: the real text (../shared/data/wiki_zh) is not on this machine")
        return
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    print(machine())
    from tianci.train.probe import bf16_is_faster

    half = {"bf16": True} if bf16_is_faster("cpu") else None
    for size in arguments.sizes.split(","):
        for kind in ("full", "ragged"):
            field = [
                ("transformers BertForPreTraining", "pretrain:transformers", {}),
                ("tianci, the same dropout", "pretrain:ours", {}),
                ("tianci without dropout", "pretrain:ours", {"dropout": 0.0}),
            ]
            if half:
                field += [
                    ("transformers, bf16", "pretrain:transformers", half),
                    ("tianci, the same dropout, bf16", "pretrain:ours", half),
                    ("tianci without dropout, bf16", "pretrain:ours", {"dropout": 0.0, **half}),
                ]
            field = [(n, t, {"size": size, "kind": kind, **a}) for n, t, a in field]
            _, _, pool, parts = material(kind)
            factor = padding(pool.lengths[part].tolist() for part in parts)
            title = f"{size}, {kind}, padded for the peer: {factor:.2f} places a token"
            battle(title, field, arguments.rounds, seconds=1.0)


if __name__ == "__main__":
    main()
