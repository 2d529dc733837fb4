"""A model measured on the text of a corpus, by the objectives it was trained with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tianci.checkpoint import Checkpoint, read
from tianci.data.corpus import Corpus
from tianci.data.store import SplitStore
from tianci.errors import UserError
from tianci.goals.base import Joint
from tianci.goals.objectives import parse
from tianci.text.tokenizer import Tokenizer
from tianci.train.examples import Examples, Recipe
from tianci.train.held_out import HELD_SEED
from tianci.train.loop import measure

BATCH_TOKENS = 4096


def evaluate_objectives(
    model: str | Path,
    corpus: str | Path,
    objective: str | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    split: str = "held",
    tokens: int = 200_000,
    length: int = 128,
    short: float = 0.1,
    seed: int | None = None,
    device: str = "cpu",
) -> dict[str, Any]:
    """Loss, perplexity and accuracy of each goal, always on the same examples.

    Without a seed they are those that a training run is measured on; `count` is the number of
    sequences.
    """
    saved = read(model)
    goal = parse(objective or _usual(saved), settings, saved.heads)
    missing = [head for head in goal.heads if head not in saved.heads]
    if missing:
        raise UserError(
            f"{model} has no head for {missing[0]}; it can be evaluated on: "
            f"{'+'.join(sorted(saved.heads)) or 'nothing'}"
        )
    if length > saved.model.config.positions:
        raise UserError(f"a length of {length}, but {model} reads {saved.model.config.positions}")
    source = Corpus(corpus)
    tokenizer = shared_tokenizer(model, saved, source)
    store = SplitStore(source.split(split))
    if store.count() == 0:
        raise UserError(f"{corpus} has no documents in its split {split}; use --split train")
    recipe = Recipe(goal, length, short, BATCH_TOKENS, HELD_SEED if seed is None else seed)
    batches = Examples(store, tokenizer, recipe).fixed(tokens)
    for part in (saved.model, *saved.heads.values()):
        part.to(device)
    result = _flat(goal, measure(saved, goal, batches, device))
    result["count"] = sum(len(batch.layout) for batch in batches)
    result["tokens"] = sum(batch.layout.tokens for batch in batches)
    result |= {"objective": goal.name, "split": split}
    known = source.info.get("statistics", {})
    return result | {n: known[n] for n in ("unigram_entropy", "bigram_entropy") if n in known}


def _usual(saved: Checkpoint) -> str:
    """The objective a model was trained with, or else what its heads can do."""
    known = (saved.about.get("provenance") or {}).get("objective")
    if isinstance(known, str):
        return known
    fitting = [
        name
        for name in ("masked", "causal", "next_sentence", "sentence_order")
        if name in saved.heads
    ]
    if "generation" in saved.heads:
        return "span"
    if not fitting:
        raise UserError("this model has no head of a pre-training objective; it cannot be measured")
    return "+".join(fitting)


def shared_tokenizer(model: str | Path, saved: Checkpoint, corpus: Corpus) -> Tokenizer:
    """The corpus's tokenizer, which must be the model's too: ids mean nothing otherwise."""
    tokenizer = corpus.tokenizer()
    rows = saved.model.config.vocabulary
    own = None if saved.tokenizer is None else saved.tokenizer.engine.get_vocab()
    theirs = tokenizer.engine.get_vocab()
    if len(tokenizer) > rows or (own is not None and any(own.get(t) != theirs[t] for t in theirs)):
        raise UserError(
            f"{corpus.directory} was made with another vocabulary than {model}; prepare the text "
            f"with --tokenizer {model}"
        )
    return tokenizer


def _flat(goal: Joint, measured: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """masked_loss, masked_perplexity, ...: one name per number."""
    result: dict[str, Any] = {}
    for part in goal.parts:
        values = measured[part.name]
        result[f"{part.name}_loss"] = values["loss"]
        result[f"{part.name}_perplexity"] = math.exp(min(values["loss"], 700.0))
        result[f"{part.name}_accuracy"] = values["accuracy"]
        result[f"{part.name}_count"] = values["count"]
    return result
