"""A small pre-trained-looking model and toy reviews that a word decides."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.goals import tiny
from tests.parity.family import loud
from tianci import checkpoint
from tianci.models import bert

GOOD, BAD = list("天气"), list("雨散")
FILLER = list("我你他们有的是不了在人大中到说国和地上")


def sentence(rng: np.random.Generator, words: list[str]) -> str:
    letters = rng.choice(FILLER, int(rng.integers(3, 12))).tolist()
    letters.insert(int(rng.integers(len(letters) + 1)), str(rng.choice(words)))
    return "".join(letters)


def write_rows(path: Path, count: int, seed: int) -> Path:
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        good = bool(rng.integers(2))
        rows.append({"text": sentence(rng, GOOD if good else BAD), "label": "+" if good else "-"})
    path.write_text("\n".join(json.dumps(r, ensure_ascii=False) for r in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with fresh weights, its masked head and a tokenizer."""
    folder = tmp_path_factory.mktemp("base") / "model"
    tokenizer = tiny.tokenizer()
    torch.manual_seed(0)
    config = bert.Config(
        vocabulary=len(tokenizer), width=32, layers=2, heads=2, hidden=64, positions=64
    )
    model = checkpoint.create("bert", config, ("masked", "next_sentence"))
    loud(model.model, 1)  # states that differ from text to text, as those of a learned model do
    model.tokenizer = tokenizer
    checkpoint.write(folder, model)
    return folder


@pytest.fixture(scope="session")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reviews")
    sizes = {"train": 240, "dev": 80, "test": 80}
    return {
        name: write_rows(folder / f"{name}.jsonl", size, seed)
        for seed, (name, size) in enumerate(sizes.items())
    }
