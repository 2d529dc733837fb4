"""Settings of a training run; the help texts are the command line's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tianci.errors import UserError
from tianci.settings import setting


@dataclass(frozen=True)
class Train:
    """How long, how fast, and how often to say so."""

    steps: int | None = setting(None, "stop after so many steps")
    minutes: float | None = setting(None, "stop after so many minutes of training")
    epochs: float | None = setting(None, "stop after so many passes over the corpus")
    tokens: int | None = setting(None, "stop after so many tokens")
    lr: float | None = setting(None, "peak learning rate (default: the preset's)")
    warmup: float | None = setting(
        None, "share of the run in which the rate rises (default: preset's)"
    )
    schedule: Literal["linear", "constant", "cosine", "slanted"] = setting(
        "linear", "the rate after warm-up"
    )
    optimizer: Literal["adamw", "bert-adam"] = setting(
        "adamw", "bert-adam is the original: no bias correction"
    )
    weight_decay: float = setting(0.01, "decoupled, not on biases and norms")
    beta1: float = setting(0.9, "Adam's first moment")
    beta2: float = setting(0.98, "Adam's second moment")
    eps: float = setting(1e-6, "Adam's epsilon")
    clip: float = setting(1.0, "largest norm of the gradient (0: no clipping)")
    batch_tokens: int | None = setting(
        None, "tokens of one step, over all processes (default: the preset's)"
    )
    micro_tokens: int | None = setting(
        None, "tokens of one forward pass; more are accumulated (default: the preset's)"
    )
    length: int = setting(128, "tokens of a full sequence")
    last_length: int = setting(0, "sequence length in the last part of the run (0: the same)")
    last_share: float = setting(0.1, "how large that last part is")
    short: float = setting(0.1, "share of sequences that are shorter on purpose")
    packing: Literal["document", "full"] = setting(
        "document", "a sequence holds text of one document, or fills up with the next ones (full)"
    )
    dropout: float | None = setting(None, "dropout in training (default: the preset's)")
    precision: Literal["auto", "float32", "bf16"] = setting(
        "auto", "bf16 autocast where this machine is faster with it"
    )
    save_every: int = setting(0, "steps between checkpoints (0: every 10 minutes)")
    evaluate_every: int = setting(0, "steps between held-out evaluations (0: up to 20 in the run)")
    log_every: int = setting(0, "steps of one line in the log (0: a line each second)")
    keep: int = setting(2, "checkpoints that are kept")

    def __post_init__(self) -> None:
        for name in self.limits:
            if not 0 < (value := getattr(self, name)) < math.inf:
                raise UserError(f"--{name} must be more than 0, not {value}")
        for name in ("batch_tokens", "micro_tokens", "length", "keep"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"train.{name} must be at least 1, not {value}")
        for name in ("lr", "eps"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1:
                raise UserError(f"train.{name} is {value}, but must lie between 0 and 1")
        for name in ("last_length", "save_every", "evaluate_every", "log_every"):
            if (value := getattr(self, name)) < 0:
                raise UserError(f"train.{name} must not be negative, but is {value}")
        for name in ("clip", "weight_decay"):
            if not 0 <= (value := getattr(self, name)) < math.inf:  # nor "nan", which is no number
                raise UserError(f"train.{name} is {value}, but must be 0 or more")
        for name in ("warmup", "dropout", "short", "last_share", "beta1", "beta2"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise UserError(f"train.{name} is {value}, but must be at least 0 and below 1")

    @property
    def limits(self) -> list[str]:
        """What says when to stop."""
        names = ("steps", "minutes", "epochs", "tokens")
        return [name for name in names if getattr(self, name) is not None]

    def check_one_limit(self) -> None:
        """Estimates, rates and reports of a pre-training go by one limit."""
        if len(given := self.limits) > 1:
            raise UserError(
                f"--{given[0]} and --{given[1]} both say when to stop; give one of them"
            )


@dataclass(frozen=True)
class Pretrain:
    """What to train on, and what."""

    corpus: str = setting("", "token store made by tianci prepare")
    preset: str = setting("mini", "size of a new model, such as mini or bert-small")
    objective: str = setting(
        "",
        "masked, next_sentence, sentence_order with +; causal, span, prefix (default: the "
        "family's own, for BERT masked+next_sentence)",
    )
    out: str = setting("", "directory for the model, its log and its checkpoints")
    start_from: str = setting("", "go on learning from this model instead of a new one", "--from")
