"""A toy comparison: two families, two tasks, a few steps."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.train.conftest import PLACES, SUBJECTS, THINGS, VERBS, write_text

RECIPE = """
[compare]
title = "Toys"
data = "data"
text = ["text.txt"]
steps = 30
seeds = 2

[vocab]
kind = "char"
size = 45
hold_back = 0.0

[prepare]
layout = "lines"
borders = "blank"
held = 0.05

[train]
length = 32
batch_tokens = 256

[finetune]
epochs = 2
lr = "3e-3"

[[model]]
name = "BERT"
preset = "bert-tiny"
sizes = {width = 32, heads = 2, hidden = 64, positions = 64}

[[model]]
name = "GPT small"
preset = "gpt-tiny"
sizes = {width = 32, heads = 2, positions = 64}

[[model]]
name = "fresh"
preset = "bert-tiny"
pretrained = false
sizes = {width = 32, heads = 2, hidden = 64, positions = 64}

[[task]]
name = "eating"
task = "classify"
train = "train.jsonl"
dev = "dev.jsonl"
test = "test.jsonl"
rows = 60
"""


def write_rows(path: Path, count: int, seed: int) -> None:
    """What somebody does: the verb decides."""
    rng = np.random.default_rng(seed)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(count):
            who, friend = rng.choice(SUBJECTS, 2)
            place, other = rng.choice(PLACES, 2)
            thing = str(rng.choice(THINGS))
            text = f"{who}今天去{place}{VERBS[thing]}{thing}，{friend}去{other}。"
            row = {"text": text, "label": "eat" if VERBS[thing] == "吃" else "other"}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with toy.toml and its data."""
    folder = tmp_path_factory.mktemp("toy")
    data = folder / "data"
    data.mkdir()
    write_text(data / "text.txt", 300)
    for seed, (name, count) in enumerate({"train": 120, "dev": 40, "test": 40}.items()):
        write_rows(data / f"{name}.jsonl", count, seed)
    (folder / "toy.toml").write_text(RECIPE, encoding="utf-8")
    return folder
