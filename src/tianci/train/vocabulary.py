"""Going on with another vocabulary: known tokens keep their vectors, new ones begin as their old
pieces."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import nn

from tianci.checkpoint import Checkpoint
from tianci.errors import UserError
from tianci.goals.laying import begin_and_end
from tianci.nn.heads import FreeHead
from tianci.text.tokenizer import Tokenizer


def vocabulary_sizes(config: Any, tokenizer: Tokenizer) -> dict[str, int]:
    """What a configuration says about a vocabulary: its size, and special tokens by their ids."""
    begin, end = begin_and_end(tokenizer)
    pad = tokenizer.pad or 0
    known = {
        "vocabulary": len(tokenizer),
        "pad": pad,
        "begin": pad if begin is None else begin,  # as T5 does it
        "end": pad if end is None else end,
    }
    fields = {field.name for field in dataclasses.fields(config)}
    return {name: value for name, value in known.items() if name in fields}


def fit_vocabulary(model: Checkpoint, tokenizer: Tokenizer) -> int:
    """Makes the model speak the corpus's vocabulary; the number of new entries."""
    old = model.tokenizer
    if old is None:
        raise UserError("the model to start from has no tokenizer, so its tokens are unknown")
    before = [old.token(i) for i in range(len(old))]
    after = [tokenizer.token(i) for i in range(len(tokenizer))]
    if before == after:
        return 0
    place = {token: i for i, token in enumerate(before)}
    shared = sum(token in place for token in after)
    if shared < len(before) / 2:
        raise UserError(
            f"the corpus was prepared with another vocabulary: only {shared:,} of the model's "
            f"{len(before):,} tokens are in it; prepare it with the model's tokenizer or an "
            f"extension"
        )
    table = model.model.token_table().detach()
    bias = getattr(model.heads.get("masked"), "bias", None)
    free = model.heads.get("generation")
    tables = [table, *([free.linear.weight.detach()] if isinstance(free, FreeHead) else [])]
    rows = [torch.empty(len(after), table.shape[1]) for _ in tables]
    biases = torch.zeros(len(after))
    for i, token in enumerate(after):
        if token in place:
            pieces = [place[token]]
        else:
            pieces = old.ids([token.removeprefix("##").lstrip("▁Ġ")], special=False)[0]
        pieces = [p for p in pieces if p != old.unknown or p == place.get(token)]
        # a token without known pieces begins at the middle of all vectors, where nothing stands out
        for new, known in zip(rows, tables, strict=True):
            new[i] = known[pieces].mean(0) if pieces else known.mean(0)
        if bias is not None and token in place:
            biases[i] = bias.detach()[place[token]]
    sizes = {**vocabulary_sizes(model.model.config, tokenizer), "pad": model.model.config.pad}
    model.model.config = dataclasses.replace(model.model.config, **sizes)
    embedding = model.model.get_submodule("embedding.token")
    assert isinstance(embedding, nn.Embedding)
    embedding.weight = nn.Parameter(rows[0])
    embedding.num_embeddings = len(after)
    if bias is not None:
        model.heads["masked"].bias = nn.Parameter(biases)
    if isinstance(free, FreeHead):
        free.linear.weight, free.linear.out_features = nn.Parameter(rows[1]), len(after)
    model.tokenizer = tokenizer
    return len(after) - shared
