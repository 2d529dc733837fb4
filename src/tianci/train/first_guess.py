"""A fresh model's first guess: how frequent each token is."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import nn

from tianci.data.corpus import Split
from tianci.nn.heads import VocabularyHead

ENOUGH = (
    20_000_000  # tokens counted: a quarter of a second; more would change no digit that matters
)


def token_counts(split: Split, vocabulary: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """How often each token stands in the first shards of a split."""
    counts, seen = np.zeros(vocabulary, np.int64), 0
    for shard in split.shards:
        counts += np.bincount(shard.tokens, minlength=vocabulary)
        seen += shard.token_count
        if seen >= ENOUGH:
            break
    return counts


@torch.no_grad()
def know_frequencies(heads: Iterable[nn.Module], split: Split) -> None:
    """Sets the bias over the vocabulary so that the first loss is near the unigram floor.

    Otherwise the first hundred steps learn nothing but these few thousand numbers.
    """
    for head in heads:
        if isinstance(head, VocabularyHead):
            counts = token_counts(split, len(head.bias))
            guess = torch.from_numpy(np.log(counts + 0.5)).to(head.bias)
            head.bias.copy_(guess - guess.mean())
