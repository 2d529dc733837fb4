"""Another vocabulary: tables follow their tokens, and so do the ids that a configuration names."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.goals.tiny import SPECIAL, tokenizer
from tianci import checkpoint
from tianci.models import gpt2, t5
from tianci.nn.heads import FreeHead
from tianci.train.vocabulary import fit_vocabulary, vocabulary_sizes

OLD = [*SPECIAL, "a", "b", "c", "d"]
NEW = ["<new>", *SPECIAL, "d", "c", "b", "ab"]


@pytest.mark.parametrize(
    ("kind", "config", "head"),
    [
        ("gpt2", gpt2.Config(9, 8, 1, 2, 16, 10), "causal"),
        ("t5", t5.Config(9, 8, 1, 1, 2, 4, 16, 10, tied=False, scaled=False), "generation"),
    ],
)
def test_tables_follow_their_tokens(kind: str, config: Any, head: str) -> None:
    model = checkpoint.create(kind, config, (head,))
    model.tokenizer = tokenizer(OLD)
    free = model.heads[head]
    tables = [model.model.token_table().detach().clone()]
    if isinstance(free, FreeHead):
        tables.append(free.linear.weight.detach().clone())
    assert fit_vocabulary(model, tokenizer(NEW)) == 2
    now = [model.model.token_table()]
    if isinstance(free, FreeHead):
        now.append(free.linear.weight)
    for old, new in zip(tables, now, strict=True):
        assert new.shape == (10, 8)
        assert torch.equal(new[6], old[8]) and torch.equal(new[8], old[6])  # d and b
    sizes = model.model.config
    assert (sizes.vocabulary, sizes.begin, sizes.end) == (10, 3, 4)


def test_what_a_configuration_says_about_a_vocabulary() -> None:
    sizes = vocabulary_sizes(gpt2.Config(), tokenizer(OLD))
    assert sizes == {"vocabulary": 9, "pad": 0, "begin": 2, "end": 3}
    bare = vocabulary_sizes(t5.Config(), tokenizer(["[UNK]", "[PAD]", "a"]))
    assert bare == {"vocabulary": 3, "pad": 1, "begin": 1, "end": 1}
