"""About how long a comparison takes, before it begins.

The speed of each size is tried for a second with a BERT of that size, and reckoned for the others
from their operations per token. The rest are rules of thumb, so the sum may be off by a third.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

import torch

from tianci import checkpoint
from tianci.checkpoint import Checkpoint
from tianci.comparison.recipe import Recipe
from tianci.comparison.settings import Entry, Labels
from tianci.data.rows import read_rows
from tianci.goals.objectives import parse
from tianci.goals.tasks import make_task
from tianci.metrics.language import language_of
from tianci.models import family, preset
from tianci.settings import build
from tianci.text.source import find_files, total_bytes
from tianci.train import probe
from tianci.train.presets import pace

READ_SPEED = {"vocab": 0.7e6, "prepare": 2.5e6}  # bytes of a file a second; .gz counts as it lies
PART_SECONDS = 4.0  # loading, checking data, writing a model and its report
LETTERS = {"zh": 1.0, "en": 4.0}  # characters of a token
FORWARD = 3.0  # learning costs so much more than answering


class Estimate:
    """Seconds of each part of a recipe."""

    def __init__(self, recipe: Recipe):
        self.recipe = recipe
        self._outlines: dict[str, Checkpoint] = {}
        self.bytes = (total_bytes(find_files(recipe.texts)) if recipe.texts else 0) or 0

    def reading(self, what: str) -> float:
        return PART_SECONDS / 2 + self.bytes / READ_SPEED[what]

    def pretraining(self, entry: Entry) -> float:
        train = self.recipe.training(entry)
        if train.minutes:
            return train.minutes * 60 + 2 * PART_SECONDS
        config = self._config(entry)
        usual = pace(config.width, config.layers).batch_tokens
        tokens = train.tokens or (train.steps or 0) * (train.batch_tokens or usual)
        return tokens / self.speed(entry, train.length) + 2 * PART_SECONDS

    def tuning(self, entry: Entry, labels: Labels) -> float:
        """One run of fine-tuning: rows learned from, and dev rows after each epoch."""
        settings = self.recipe.tuning(entry, labels)
        rows, characters, language = _sizes(labels.task, settings.train, settings.columns)
        learned = min(rows, settings.rows) if settings.rows else rows
        asked = _sizes(labels.task, settings.dev, settings.columns)[0] if settings.dev else 0
        tokens = max(4.0, characters / LETTERS[language])
        if settings.length:
            tokens = min(tokens, settings.length)
        if settings.minutes:
            return settings.minutes * 60 + PART_SECONDS
        if settings.steps:
            seen = settings.steps * settings.batch_rows(learned) + asked / FORWARD
        else:
            epochs = settings.planned_epochs(learned) or 1.0
            seen = epochs * (learned + asked / FORWARD)
        return seen * tokens / self.speed(entry, 64) + PART_SECONDS

    def speed(self, entry: Entry, length: int) -> float:
        """Tokens a second in training."""
        if entry.name not in self._outlines:
            self._outlines[entry.name] = self._outline(entry)
        model = self._outlines[entry.name]
        width, layers = int(model.model.config.width), int(model.model.config.layers)
        return _operations(width, layers) / probe.training_flops(model, length)

    def _config(self, entry: Entry) -> Any:
        _, config = preset(entry.preset)
        size = self.recipe.vocabulary(entry).size
        sizes = {**dataclasses.asdict(config), "vocabulary": size}
        return build(type(config), {**sizes, **self.recipe.table(entry, "sizes")}, "sizes")

    def _outline(self, entry: Entry) -> Checkpoint:
        """The model without weights."""
        if entry.directory:
            return checkpoint.read(Path(entry.directory))
        goal = parse(self.recipe.objective(entry), self.recipe.objective_tables(entry))
        with torch.device("meta"):
            return checkpoint.create(preset(entry.preset)[0], self._config(entry), goal.heads)


@cache
def _operations(width: int, layers: int) -> float:
    """Useful operations a second that this machine reaches at a size."""
    goal = parse("masked")
    config = dataclasses.replace(
        family("bert").PRESETS["tiny"], width=width, layers=layers, hidden=4 * width,
        heads=max(1, width // 64), dropout=0.0, attention_dropout=0.0, vocabulary=8000,
    )  # fmt: skip
    model = checkpoint.create("bert", config, goal.heads)
    batch = probe.random_batch(8000, 128, 16)
    bf16 = probe.precision("auto", "cpu", width) == "bf16"
    speed = probe.tokens_per_second(model, goal, batch, "cpu", bf16)
    return speed * probe.training_flops(model, 128)


@cache
def _sizes_of(task: str, path: str, columns: tuple[tuple[str, str], ...]) -> tuple[int, float, str]:
    rows = read_rows(path, make_task(task).columns(), dict(columns))
    texts = [
        part
        for row in rows[:2000]
        for name, value in row.values.items()
        if name not in ("label", "tags", "answers", "entities")
        for part in _strings(value)
    ]
    total = sum(map(len, texts))
    return len(rows), total / max(1, min(len(rows), 2000)), language_of(texts)


def _sizes(task: str, path: str, columns: dict[str, str]) -> tuple[int, float, str]:
    """Rows of a file, mean characters of a row, and the language."""
    return _sizes_of(task, path, tuple(columns.items()))


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple):
        return [one for part in value for one in _strings(part)]
    return []
