"""Held-out text during pre-training: which, when, and what it said last."""

from __future__ import annotations

import time
from typing import Any

from tianci.batch import Batch
from tianci.checkpoint import Checkpoint
from tianci.data.corpus import Corpus
from tianci.data.store import SplitStore
from tianci.goals.base import Joint
from tianci.train import estimate
from tianci.train.examples import Examples, Recipe
from tianci.train.loop import measure
from tianci.train.settings import Train

HELD_TOKENS = 40_000  # per evaluation: 6,000 guesses, a second or two
HELD_SEED = 20_180_811  # fixed: every run is measured on the same examples


class HeldOut:
    """Examples of the held-out documents, always the same; none where the corpus keeps none."""

    def __init__(self, corpus: Corpus, goal: Joint, settings: Train, batch_tokens: int):
        self.goal, self.settings = goal, settings
        self.batches: list[Batch] = []
        store = SplitStore(corpus.split("held"))
        if store.count() >= 2:
            recipe = Recipe(goal, settings.length, settings.short, 4096, HELD_SEED)
            self.batches = Examples(store, corpus.tokenizer(), recipe).fixed(HELD_TOKENS)
        # a pass forward costs a third of a pass of training
        once = sum(batch.layout.tokens for batch in self.batches) / 3
        run = estimate.planned_tokens(settings, batch_tokens, corpus.split("train").tokens)
        self.times = 20 if run is None else estimate.evaluations(run, once)
        self.step, self.said = -1, dict[str, Any]()  # of the last evaluation

    def due(self, step: int, before: float, reached: float) -> bool:
        """Whether it is time, from the progress alone, so that a resumed run evaluates where an
        undisturbed one does; `before`: the progress at the last step."""
        if not self.batches:
            return False
        if every := self.settings.evaluate_every:
            return step % every == 0
        return step == 2 or int(self.times * reached) > int(self.times * before)

    def ask(self, step: int, model: Checkpoint, device: str) -> dict[str, Any]:
        """What the model of a step says; asked once for each step."""
        if self.batches and step != self.step:
            began = time.monotonic()
            # as it is trained: in float32 a large model would take minutes where bf16 is fast
            bf16 = self.settings.precision == "bf16"
            self.step, self.said = step, measure(model, self.goal, self.batches, device, bf16)
            if minutes := self.settings.minutes:  # such a run is as long as the machine makes it
                self.times = estimate.evaluations(60 * minutes, time.monotonic() - began)
        return self.said
