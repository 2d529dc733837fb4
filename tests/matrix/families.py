"""A very small model of every family, one vocabulary and one text for all, rows of all tasks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tests.train.conftest import PLACES, THINGS, VERBS, write_text
from tianci.data.prepare import PrepareSettings, prepare
from tianci.data.rows import Row
from tianci.text.learn import Vocabulary, learn
from tianci.train.pretrain import pretrain
from tianci.train.settings import Pretrain, Train

SIZE = {"width": 16, "layers": 2, "heads": 2, "hidden": 32, "positions": 64}
SIZES: dict[str, dict[str, Any]] = {
    "bert": SIZE,
    "roberta": SIZE,
    "albert": {**SIZE, "embedding": 8},
    "distilbert": SIZE,
    "gpt": {name: value for name, value in SIZE.items() if name != "hidden"},
    "gpt2": SIZE,
    "t5": {**SIZE, "decoder_layers": 2, "head_size": 8},
}
FAMILIES = list(SIZES)


@dataclass(frozen=True)
class Place:
    """Where everything is: the store, and a model of each family once it was asked for."""

    folder: Path

    @cached_property
    def store(self) -> Path:
        text = write_text(self.folder / "text.txt", 60)
        wanted = Vocabulary(kind="char", size=53, sentinels=8, hold_back=0.0)
        tokenizer, _ = learn([text], wanted)
        (self.folder / "vocab").mkdir()
        tokenizer.save(self.folder / "vocab")
        settings = PrepareSettings(layout="lines", borders="blank", held=0.1)
        prepare([text], self.folder / "vocab", self.folder / "store", settings)
        return self.folder / "store"

    def base(self, family: str) -> Path:
        """Four steps of what the family was made for; a checkpoint after two."""
        out = self.folder / family
        if not out.exists():
            self.pretrain(family, "", out, steps=4)
        return out

    def pretrain(self, family: str, objective: str, out: Path, steps: int = 2) -> dict[str, Any]:
        sections = {
            "pretrain": Pretrain(str(self.store), f"{family}-tiny", objective, str(out)),
            "train": Train(
                steps=steps, length=32, batch_tokens=256, lr=5e-3, dropout=0.1, save_every=2,
                precision="float32",
            ),
            "model": SIZES[family],
        }  # fmt: skip
        return pretrain(sections, quiet=True)


# ---------------------------------------------------------------- rows


def sentence(rng: np.random.Generator, place: str, thing: str) -> str:
    return f"我今天去{place}{VERBS[thing]}{thing}，{place}的{thing}很好。"


def rows(task: str, count: int, seed: int) -> list[Row]:
    """Rows of a task, about where somebody was and what they had."""
    rng = np.random.default_rng(seed)
    found = []
    for line in range(1, count + 1):
        place, other = rng.choice(PLACES, 2, replace=False).tolist()
        thing, another = rng.choice(THINGS, 2, replace=False).tolist()
        text = sentence(rng, place, thing)
        second = sentence(rng, place if line % 2 else other, another)
        found.append(Row(VALUES[task](text, second, place, other, line), "toy.jsonl", line, {}))
    return found


def _tagged(text: str, second: str, place: str, other: str, line: int) -> dict[str, Any]:
    tags = ["O"] * len(text)
    start = text.index(place)
    tags[start : start + len(place)] = ["B-PLACE"] + ["I-PLACE"] * (len(place) - 1)
    return {"words": list(text), "tags": tags}


def _pair(text: str, second: str, place: str, other: str, line: int) -> dict[str, Any]:
    return {"text": text, "pair": second, "label": "same" if line % 2 else "other"}


VALUES: dict[str, Any] = {
    "classify": lambda text, second, place, other, line: {
        "text": text if line % 2 else second,
        "label": "读" if "读" in (text if line % 2 else second) else "else",
    },
    "pair": _pair,
    "regress": lambda text, second, place, other, line: {"text": text, "pair": second,
                                                         "number": float(line % 3)},
    "tag": _tagged,
    "answer": lambda text, second, place, other, line: {
        "context": text, "question": "去哪？",
        "answers": [{"text": place, "answer_start": text.index(place)}] if line % 4 else [],
    },
    "choose": lambda text, second, place, other, line: {
        "context": text, "question": "去哪？", "choices": [place, other][:: 1 if line % 2 else -1],
        "label": "0" if line % 2 else "1",
    },
    "similar": lambda text, second, place, other, line: {"text": text, "pair": second},
    "generate": lambda text, second, place, other, line: {"source": text, "target": [place]},
}  # fmt: skip
