"""A fresh model's first guess is how frequent tokens are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from tianci.checkpoint import create
from tianci.data.corpus import Corpus
from tianci.models import bert
from tianci.train.first_guess import know_frequencies, token_counts


def test_the_first_guess_is_the_unigram_model(corpus: Path) -> None:
    store = Corpus(corpus)
    split, size = store.split("train"), len(store.tokenizer())
    counts = token_counts(split, size)
    assert counts.sum() == split.tokens
    config = bert.Config(vocabulary=size, width=16, layers=1, heads=2, hidden=16)
    model = create("bert", config, ("masked",))
    know_frequencies(model.heads.values(), split)
    guess = torch.softmax(model.heads["masked"].bias, 0).detach().numpy()
    share = counts / counts.sum()
    assert np.abs(guess - share).max() < 1e-3
    entropy = -(share[share > 0] * np.log(share[share > 0])).sum()
    assert abs(-(share * np.log(guess)).sum() - entropy) < 0.01
