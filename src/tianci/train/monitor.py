"""Watches a run and says what is wrong in words: stuck, diverged, broken, or learned by heart.

The floors come from the corpus: `unigram` is the loss of a model that knows only how frequent
tokens are, `bigram` of one that also knows the token before. A masked model that stays at the
first has not begun to read; neither has a causal one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tianci.goals.language import language_of
from tianci.train.loop import Step

REMEMBERED = ("smooth", "best", "clipped", "steps_after_warmup")
NEAR = 0.1  # nats around the unigram floor that count as the plateau


@dataclass(frozen=True)
class Finding:
    """What was seen, why it probably is so, and the setting to change."""

    fault: str  # nan, diverged, plateau, pairs, memorised, vocabulary, duplicates
    message: str
    fatal: bool = False


def share_of_copies(corpus: Mapping[str, Any]) -> float:
    """Of the documents that are stored, how many are copies at least, by the corpus's record.

    Copies are counted as the text is read. Some of them are not stored: with --dedupe all, and
    always those that became no token, which are counted as empty too.
    """
    known = corpus["statistics"]
    prepared = corpus.get("settings", {}).get("prepare", {})
    if known.get("deduped", prepared.get("dedupe", False)):
        return 0.0
    stored = known.get("duplicate_documents", 0) - known.get("empty_documents", 0)
    return max(0, int(stored)) / max(1, int(known["documents"]))


@dataclass
class Monitor:
    """Fed with every step; returns a finding when there is something to say, once per fault."""

    unigram: float
    bigram: float
    layers: int
    lr: float
    warmup: float
    clip: float
    usual_lr: float  # what the preset would take
    unknown_rate: float = 0.0
    duplicates: float = 0.0  # share of documents that are copies
    patience: int = 400  # steps after warm-up before a plateau is called one
    smooth: float = math.nan
    best: float = math.inf
    clipped: float = 0.0  # share of the steps whose gradient was cut
    seen: set[str] = field(default_factory=set)
    warm_until: float = 0.0
    steps_after_warmup: int = 0
    pair_smooth: float = math.nan
    language: str | None = None  # the goal that guesses tokens

    def memory(self) -> dict[str, float]:
        """What a resumed run needs to judge as if nothing had happened."""
        values = {name: float(getattr(self, name)) for name in REMEMBERED}
        return {name: value for name, value in values.items() if math.isfinite(value)}

    def recall(self, values: Mapping[str, float]) -> None:
        """Puts back what `memory` gave."""
        for name in REMEMBERED:
            if name in values:
                setattr(self, name, type(getattr(self, name))(values[name]))

    def before(self) -> list[Finding]:
        """What can be said before the first step."""
        found: list[Finding] = []
        if self.unknown_rate > 0.05:
            found.append(
                Finding(
                    "vocabulary",
                    f"{self.unknown_rate:.1%} of the tokens are unknown: the vocabulary does not "
                    f"fit "
                    "the text; learn one from this text (tianci vocab) and prepare again",
                )
            )
        if self.duplicates > 0.2:
            found.append(
                Finding(
                    "duplicates",
                    f"{self.duplicates:.0%} of the documents are copies of others; the model will "
                    "learn them by heart; prepare again with --dedupe",
                )
            )
        if self.warmup == 0 and self.layers >= 8:
            found.append(
                Finding(
                    "warmup",
                    f"{self.layers} layers without warm-up usually never leave the "
                    f"plateau; "
                    "set train.warmup to 0.1",
                )
            )
        if self.lr > 5 * self.usual_lr:
            found.append(
                Finding(
                    "rate",
                    f"the learning rate {self.lr:g} is {self.lr / self.usual_lr:.0f} times the "
                    f"usual "
                    f"{self.usual_lr:g} for this size; set train.lr lower if the loss does not "
                    f"fall",
                )
            )
        return [f for f in found if self._new(f.fault)]

    def step(self, step: Step, warm: bool) -> Finding | None:
        """Judges one step; `warm` says that warm-up is over."""
        if not math.isfinite(step.loss) or not math.isfinite(step.gradient):
            return self.not_a_number(step.number)
        self.language = language_of(step.parts)
        loss = step.parts[self.language] if self.language else step.loss
        self.smooth = loss if math.isnan(self.smooth) else 0.98 * self.smooth + 0.02 * loss
        cut = float(bool(self.clip) and step.gradient > self.clip)
        self.clipped = 0.98 * self.clipped + 0.02 * cut
        if not warm:
            return None
        self.steps_after_warmup += 1
        self.best = min(self.best, self.smooth)
        if self.smooth > self.best + 1.0 and self.steps_after_warmup > 50:
            return self._once("diverged", self._diverged())
        if self.language and self.steps_after_warmup >= self.patience:
            if self.smooth > self.unigram + 1.0:
                return self._once("labels", self._above())
            if self.smooth > self.unigram - NEAR:
                return self._once("plateau", self._plateau(step))
        return None

    def held_out(self, train: float, held: float) -> Finding | None:
        """Judges the gap between the text it learns from and text it has not seen."""
        # a rate far too high also parts the two, but long before anything is known by heart
        if train < self.bigram and held - train > 1.0 and held > self.bigram - 0.5:
            return self._once(
                "memorised",
                f"the loss is {train:.2f} on the training text but {held:.2f} on held-out text: "
                f"it is "
                "learned by heart; use more text, fewer epochs, or prepare --dedupe",
            )
        return None

    def pairs(self, name: str, accuracy: float, count: int) -> Finding | None:
        """Judges a question with two answers that should be well above chance by the end."""
        if abs(accuracy - 0.5) < 1 / math.sqrt(max(1, count)):  # two standard deviations
            return self._once(
                "pairs",
                f"{name} is at chance ({accuracy:.1%} of {count}): train longer; if it stays "
                f"there, "
                "documents may be mixed up: check the blank lines between documents",
            )
        return None

    def start_over(self) -> None:
        """After a return to an earlier state the loss may be higher again."""
        self.smooth, self.best, self.steps_after_warmup = math.nan, math.inf, 0
        self.clipped = 0.0

    def not_a_number(self, step: int) -> Finding:
        """What to say when a run ends so."""
        cause = (
            f"the learning rate {self.lr:g} is too high; try train.lr={self.usual_lr:g}"
            if self.lr > 2 * self.usual_lr or not self.clip
            else "bf16 or damaged weights; try train.precision=float32"
        )
        message = f"step {step}: the loss is not a number any more; probably {cause}"
        return Finding("nan", message, fatal=True)

    def _diverged(self) -> str:
        lower = self.usual_lr if self.lr > self.usual_lr else self.lr / 3
        return (
            f"the loss rose from {self.best:.2f} to {self.smooth:.2f}: it diverges; "
            f"set train.lr={lower:g}" + ("" if self.warmup else " and train.warmup=0.1")
        )

    def _above(self) -> str:
        return (
            f"the {self.language} loss is {self.smooth:.2f}, above the {self.unigram:.2f} of a "
            "model that only "
            "counts tokens: the rate is far too high, or the labels do not belong to the text; "
            f"try train.lr={self.usual_lr:g}, and run tianci audit on the corpus"
        )

    def _plateau(self, step: Step) -> str:
        head = (
            f"the {self.language} loss stays at {self.smooth:.2f}; a model that only counts tokens "
            f"has {self.unigram:.2f}. "
        )
        if self.unknown_rate > 0.05:
            return head + (
                f"{self.unknown_rate:.1%} of the tokens are unknown: learn a vocabulary from "
                f"this text"
            )
        if self.lr > 2 * self.usual_lr:
            return (
                head + f"The rate {self.lr:g} is too high for this size: train.lr={self.usual_lr:g}"
            )
        if self.lr < self.usual_lr / 5:
            return (
                head + f"The rate {self.lr:g} is too low for this size: train.lr={self.usual_lr:g}"
            )
        if self.warmup < 0.01 and self.layers >= 6:
            return head + f"{self.layers} layers need warm-up: train.warmup=0.1"
        return head + (
            f"The rate is usual, so suspect the text or the labels: tianci audit shows what is "
            f"asked; "
            f"or try train.lr={self.lr / 2:g} and train.warmup={max(0.1, self.warmup):g}"
        )

    def _new(self, fault: str) -> bool:
        fresh = fault not in self.seen
        self.seen.add(fault)
        return fresh

    def _once(self, fault: str, message: str) -> Finding | None:
        return Finding(fault, message) if self._new(fault) else None
