"""Going on with another vocabulary: known tokens keep their vectors, new ones begin as their old
pieces."""

from __future__ import annotations

import dataclasses

import torch
from torch import nn

from tianci.checkpoint import Checkpoint
from tianci.errors import UserError
from tianci.text.tokenizer import Tokenizer


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
    rows = torch.empty(len(after), table.shape[1])
    biases = torch.zeros(len(after))
    for i, token in enumerate(after):
        if token in place:
            pieces = [place[token]]
        else:
            pieces = old.ids([token.removeprefix("##").lstrip("▁Ġ")], special=False)[0]
        pieces = [p for p in pieces if p != old.unknown or p == place.get(token)]
        # a token without known pieces begins at the middle of all vectors, where nothing stands out
        rows[i] = table[pieces].mean(0) if pieces else table.mean(0)
        if bias is not None and token in place:
            biases[i] = bias.detach()[place[token]]
    model.model.config = dataclasses.replace(model.model.config, vocabulary=len(after))
    embedding = model.model.get_submodule("embedding.token")
    assert isinstance(embedding, nn.Embedding)
    embedding.weight = nn.Parameter(rows)
    embedding.num_embeddings = len(after)
    if bias is not None:
        model.heads["masked"].bias = nn.Parameter(biases)
    model.tokenizer = tokenizer
    return len(after) - shared
