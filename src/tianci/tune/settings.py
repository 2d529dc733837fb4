"""The settings of a fine-tuning run, and what is chosen where the user says nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tianci.errors import UserError
from tianci.settings import setting

STRATEGIES = ("full", "head", "adapters", "norms-biases")
BATCHES = ((1_000, 16), (20_000, 32))  # fewer rows than this -> rows of a batch
STEPS = 600  # small sets are repeated until about so many steps
# Peak rates by width: narrow models want larger steps (LOG.md)
RATES = {128: 5e-4, 256: 2e-4, 384: 1e-4, 512: 1e-4, 768: 3e-5, 1024: 2e-5}
# What learns from scratch, or alone, learns faster than a whole model
FASTER = {"full": 1.0, "head": 20.0, "adapters": 10.0, "norms-biases": 10.0}

# fmt: off
NOT_NEGATIVE = (
    "adapter_size", "layers", "hidden", "lstm", "reinit", "batch", "patience", "length", "rows",
    "language", "weight_decay", "clip", "save_every", "log_every",
)
# fmt: on


@dataclass(frozen=True)
class Finetune:
    """What to learn, from what, and how."""

    model: str = setting("", "a pre-trained model, or a preset such as mini to start from scratch")
    tokenizer: str = setting("", "directory of a vocabulary, for a preset")
    train: str = setting("", "labelled rows to learn from (.jsonl, .tsv, .csv, .conll, .json, .gz)")
    dev: str = setting("", "rows that choose: epoch, rate, threshold (default: a tenth of train)")
    test: str = setting("", "rows that only measure, at the very end")
    out: str = setting("", "directory for the model, its scores and its report")
    rows: int = setting(0, "learn from so many of the training rows, drawn at random, the same for "
                           "every seed (0: all)")  # fmt: skip
    column: list[str] = setting([], "which column is which, for example text=review; repeatable")  # noqa: RUF009

    strategy: str = setting("full", "what learns: full, head, adapters, norms-biases, with +")
    layers: int = setting(0, "use only the first n layers (0: all)")
    pooling: str = setting("", "first, last, mean, max, mean-max, last-mean-max or attention "
                               "(default: BERT's pooler)")  # fmt: skip
    mix: bool = setting(False, "the head reads a learned weighted sum of all layers")
    hidden: int = setting(0, "width of one more linear layer in the head (0: none)")
    lstm: int = setting(0, "width of a BiLSTM under the head, each direction (0: none)")
    crf: bool = setting(False, "a CRF over neighbouring labels (tag)")
    adapter_size: int = setting(
        0, "width of an adapter's bottleneck (0: 64, or the model's width where that is less)"
    )
    layer_rates: float = setting(1.0, "factor on the rate for each layer further down, such as 0.9")
    unfreeze: bool = setting(False, "gradual unfreezing: one more layer learns in each epoch")
    reinit: int = setting(0, "start the top n layers anew")
    language: float = setting(0.0, "weight of an auxiliary language-model loss (lambda)")
    task_tokens: Literal["auto", "keep"] = setting(
        "auto", "decoders without a delimiter get start, delimiter and extract tokens; keep: no"
    )

    epochs: float | None = setting(None, "passes over the training rows (default: by their number)")
    steps: int | None = setting(None, "stop after so many steps, or earlier if --epochs says so")
    minutes: float | None = setting(
        None, "stop after so many minutes of training, or earlier if --epochs or --steps say so"
    )
    batch: int = setting(0, "rows of one step (0: 16 or 32, by the number of rows)")
    lr: str = setting("", "peak rate, or auto: three rates are tried, dev chooses "
                          "(default: by the width)")  # fmt: skip
    sweep: list[str] = setting([], "values to try, such as lr=1e-5,2e-5,3e-5; dev chooses")  # noqa: RUF009
    seeds: int = setting(1, "train so often, with different seeds; dev chooses the best")
    warmup: float = setting(0.1, "share of the run in which the rate rises")
    schedule: Literal["linear", "constant", "cosine", "slanted"] = setting(
        "linear", "the rate after warm-up"
    )
    optimizer: Literal["adamw", "bert-adam"] = setting(
        "adamw", "bert-adam is the original: no bias correction"
    )
    weight_decay: float = setting(0.01, "decoupled, not on biases and norms")
    clip: float = setting(1.0, "largest norm of the gradient (0: no clipping)")
    average: float = setting(0.0, "judge and keep an average of the weights of many steps instead "
                                  "of the last ones: how much of it stays in each step, such as "
                                  "0.999 (0: off)")  # fmt: skip
    dropout: float | None = setting(None, "dropout everywhere (default: the model's own)")
    length: int = setting(0, "most tokens of a text (0: as many as the model reads, at most 512)")
    metric: str = setting("", "the score that dev chooses by (default: the task's)")
    patience: int = setting(3, "stop after so many epochs without a better dev score (0: never)")
    precision: Literal["auto", "float32", "bf16"] = setting(
        "auto", "bf16 autocast where this machine is faster with it"
    )
    save_every: int = setting(0, "steps between checkpoints (0: after each epoch)")
    log_every: int = setting(0, "steps of one line in the log (0: a line each second)")
    compare: bool = setting(False, "also a simple baseline and the same model from scratch, over "
                                   "several numbers of labels")  # fmt: skip
    force: bool = setting(False, "go on although check found faults that make results meaningless")

    def __post_init__(self) -> None:
        for name in self.strategies:
            if name not in STRATEGIES:
                from tianci.errors import unknown

                raise unknown("strategy", name, STRATEGIES)
        if "head" in self.strategies and len(self.strategies) > 1:
            raise UserError("strategy head means that nothing else learns; give it alone")
        if "head" in self.strategies and (self.reinit or self.language):
            name = "--reinit" if self.reinit else "--language"
            raise UserError(f"{name} does not go with strategy head: the layers do not learn there")
        if self.unfreeze and self.strategies != ("full",):
            raise UserError("--unfreeze goes with strategy full: elsewhere the layers do not learn")
        for name in NOT_NEGATIVE:
            value = getattr(self, name)
            if not 0 <= value < math.inf:  # nor something that is not a number
                raise UserError(f"finetune.{name} must be 0 or more, not {value}")
        if self.seeds < 1:
            raise UserError(f"finetune.seeds must be at least 1, not {self.seeds}")
        for name in ("epochs", "steps", "minutes"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise UserError(f"--{name} must be more than 0, not {value}")
        if self.lr not in ("", "auto"):
            _rate(self.lr, "--lr")
        self._swept()  # a wrong rate is told now, before anything is written
        if not 0 <= self.warmup < 1:
            raise UserError(f"--warmup is {self.warmup}, but must be at least 0 and below 1")
        if not 0 < self.layer_rates <= 1:
            raise UserError(f"--layer-rates is {self.layer_rates}, but must be above 0, at most 1")
        if not 0 <= self.average < 1:
            raise UserError(f"--average is {self.average}, but must be at least 0 and below 1")
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise UserError(f"--dropout is {self.dropout}, but must be at least 0 and below 1")

    @property
    def strategies(self) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.strategy.split("+"))

    @property
    def columns(self) -> dict[str, str]:
        """Our name of a field -> the file's."""
        found: dict[str, str] = {}
        for text in self.column:
            name, equals, theirs = text.partition("=")
            if not equals or not name or not theirs:
                raise UserError(f'--column "{text}" is not field=column, for example text=review')
            found[name.strip()] = theirs
        return found

    def usual_rate(self, width: int) -> float:
        """The rate for a model of this width and this strategy."""
        nearest = min(RATES, key=lambda known: abs(known - width))
        return RATES[nearest] * max(FASTER[name] for name in self.strategies)

    def rates(self, width: int) -> list[float]:
        """The peak rates to try."""
        if swept := self._swept():
            return swept
        usual = self.usual_rate(width)
        if self.lr == "auto":
            return [usual / 2, usual, usual * 2]
        return [_rate(self.lr, "--lr") if self.lr else usual]

    def _swept(self) -> list[float]:
        """The rates of all --sweep together; what is named twice is tried once."""
        found: list[float] = []
        for text in self.sweep:
            name, _, values = text.partition("=")
            if name.strip() != "lr" or not values:
                raise UserError(f'--sweep "{text}": only lr=A,B,C can be swept')
            found += [_rate(value, "--sweep") for value in values.split(",")]
        return list(dict.fromkeys(found))

    def batch_rows(self, rows: int) -> int:
        return self.batch or next((size for limit, size in BATCHES if rows < limit), 32)

    def planned_epochs(self, rows: int) -> float | None:
        """How often the rows are seen; None when only steps or minutes say when to stop."""
        if self.epochs is not None:
            return self.epochs
        if self.steps is not None or self.minutes is not None:
            return None
        per_epoch = max(1, rows // self.batch_rows(rows))
        return float(min(20, max(3, round(STEPS / per_epoch))))


def _rate(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise UserError(f'{where}: "{text}" is not a number (nor auto)') from None
    if not 0 < value < 1:
        raise UserError(f"{where}: {value} must lie between 0 and 1")
    return value
