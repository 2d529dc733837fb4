"""The language-model loss beside a task: L = L_task + lambda L_language (GPT, 2018)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from tianci.batch import Batch
from tianci.checkpoint import Checkpoint
from tianci.errors import UserError
from tianci.goals.base import Goal, Heads, Loss
from tianci.goals.objectives.causal import Causal
from tianci.goals.objectives.masked import Masked
from tianci.models.base import Model, States
from tianci.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class MaskedBeside(Goal):
    """The texts of the task once more, masked: the task itself must see them whole."""

    name: ClassVar[str] = "language"
    heads: ClassVar[tuple[str, ...]] = ("masked",)

    weight: float
    mask_id: int
    special: frozenset[int]
    ordinary: tuple[int, ...]
    masked: Masked = dataclasses.field(default_factory=Masked)

    def count(self, batch: Batch) -> int:
        return batch.layout.tokens  # a mean over all tokens: fixed before the dice fall

    def loss(self, model: Model, heads: Heads, states: States, batch: Batch) -> Loss:
        # the loop seeds torch's dice at every step; ours follow them
        rng = np.random.default_rng(int(torch.randint(2**31, (1,))))
        tokens = batch.tokens.cpu().numpy()
        special = np.isin(tokens, list(self.special))
        hidden = self.masked.corrupt(
            tokens,
            batch.layout.starts[:-1].cpu().numpy(),
            special,
            np.ones(len(tokens), bool),
            self.mask_id,
            np.array(self.ordinary),
            rng,
        )
        at = torch.from_numpy(hidden.places).to(batch.tokens.device)
        seen = dataclasses.replace(
            batch,
            tokens=torch.from_numpy(hidden.tokens).to(batch.tokens.device),
            targets={"masked_at": at, "masked_is": batch.tokens[at]},
        )
        found = self.masked.loss(model, heads, model(seen), seen)
        share = batch.layout.tokens / max(1, len(at))  # the sum over the masked, per token
        return Loss(found.total * share * self.weight, found.hits)


@dataclass(frozen=True)
class CausalBeside(Goal):
    """Each token of the task's texts from those before it: the states are there already."""

    name: ClassVar[str] = "language"
    heads: ClassVar[tuple[str, ...]] = ("causal",)

    weight: float
    causal: Causal = dataclasses.field(default_factory=Causal)

    def count(self, batch: Batch) -> int:
        return self.causal.count(batch)

    def loss(self, model: Model, heads: Heads, states: States, batch: Batch) -> Loss:
        found = self.causal.loss(model, heads, states, batch)
        return Loss(found.total * self.weight, found.hits)


def auxiliary(model: Checkpoint, tokenizer: Tokenizer, weight: float) -> Goal:
    """The language-model goal that fits a model's head."""
    if "causal" in model.heads:
        return CausalBeside(weight)
    if "masked" not in model.heads or tokenizer.mask is None:
        raise UserError("--language needs a model that still has its language-model head")
    ordinary = tuple(i for i in range(len(tokenizer)) if i not in tokenizer.special_ids)
    return MaskedBeside(weight, tokenizer.mask, tokenizer.special_ids, ordinary)
