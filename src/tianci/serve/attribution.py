"""Which tokens a decision rests on: integrated gradients (Sundararajan and others, 2017).

Every token of the text is turned, little by little, from a token that says nothing (the mask) into
itself; the gradients on the way, summed, are its share. All shares together are the difference
between what the model says of the text and of the empty one.

Shapes: S steps, n tokens, W width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from tianci.batch import Batch
from tianci.goals.tasks.base import Part, Task
from tianci.goals.tasks.classify import Classify
from tianci.serve.predictor import Predictor
from tianci.serve.work import Step, Work
from tianci.text.tokenizer import Tokenizer

PIECE = 1024  # tokens of one forward and backward pass; other work may run between two of them


class Wanted(NamedTuple):
    """An input and the label that is asked about (None: the likeliest)."""

    part: Part
    special: Sequence[bool]  # tokens of the template stay as they are
    output: int | None


class Shares(NamedTuple):
    """What each token adds to the answer."""

    output: int
    value: float  # of the text
    baseline: float  # of the same text with nothing in it
    tokens: list[float]


@dataclass(frozen=True)
class Attribute(Work):
    """Inputs of a fine-tuned model to the shares of their tokens."""

    task: Task
    steps: int

    @property
    def patient(self) -> bool:
        return True

    def run(self, items: Sequence[Wanted], step: Step) -> list[Shares]:
        return [self._shares(one, step) for one in items]

    def _shares(self, wanted: Wanted, step: Step) -> Shares:
        real, empty = self._ends(wanted)
        output, (value, baseline) = self._judged(torch.stack([real, empty]), wanted)
        points, weights = np.polynomial.legendre.leggauss(self.steps)
        total = torch.zeros_like(real)
        size = max(1, PIECE // len(real))
        for start in range(0, self.steps, size):
            at = torch.tensor((points[start : start + size] + 1) / 2).to(real)
            share = torch.tensor(weights[start : start + size] / 2).to(real)
            path = (empty + at[:, None, None] * (real - empty)).requires_grad_()
            with torch.enable_grad():
                said = self._said(path, wanted)
                (slope,) = torch.autograd.grad(self._quantity(said, output).sum(), path)
            total += (share[:, None, None] * slope).sum(0)
            step()
        tokens = (total * (real - empty)).sum(-1)
        return Shares(output, value, baseline, tokens.double().tolist())

    def _ends(self, wanted: Wanted) -> tuple[Tensor, Tensor]:
        """(n, W) the input vectors of the text, and of one that says nothing."""
        blank = blank_token(self.model.tokenizer)
        ids = list(wanted.part.ids)
        hidden = [i if s else blank for i, s in zip(ids, wanted.special, strict=True)]
        segments = wanted.part.segments
        batch = Batch.of([ids, hidden], [segments, segments]).to(self.model.device)
        with torch.no_grad():
            both: Tensor = embedding_of(self.model)(batch)
        real, empty = both.detach().view(2, len(ids), -1)
        return real, empty

    def _said(self, vectors: Tensor, wanted: Wanted) -> Tensor:
        """(S, outputs) what the head says of (S, n, W) input vectors."""
        copies = [wanted.part] * len(vectors)
        batch = Batch.of([one.ids for one in copies], [one.segments for one in copies])
        batch = batch.to(self.model.device)
        flat = vectors.flatten(0, 1)
        # only around this pass: other requests use the same model between two of them
        hook = embedding_of(self.model).register_forward_hook(lambda *_: flat)
        try:
            states = self.model.model(batch)
        finally:
            hook.remove()
        said: Tensor = self.task.head(self.model.heads)(states.layers, states.layout)
        return said.float()

    def _judged(self, ends: Tensor, wanted: Wanted) -> tuple[int, list[float]]:
        """The output that is asked about, and the quantity at both ends."""
        with torch.enable_grad():  # an engine would not see the hook; it leaves gradients alone
            said = self._said(ends, wanted).detach()
        with torch.no_grad():
            output = int(said[0].argmax()) if wanted.output is None else wanted.output
            return output, self._quantity(said, output).double().tolist()

    def _quantity(self, said: Tensor, output: int) -> Tensor:
        """(S,) the log-odds of a label, or a number as it is."""
        chosen = said[:, output]
        if not isinstance(self.task, Classify) or self.task.many or said.shape[1] == 1:
            return chosen
        others = [n for n in range(said.shape[1]) if n != output]
        return chosen - said[:, others].logsumexp(-1)


def embedding_of(model: Predictor) -> nn.Module:
    """The part that gives one vector per token."""
    return model.model.get_submodule("embedding")


def can_attribute(model: Predictor) -> bool:
    found: Any = getattr(model.model, "embedding", None)
    return isinstance(found, nn.Module)


def blank_token(tokenizer: Tokenizer) -> int:
    """A token that says nothing."""
    known = (tokenizer.mask, tokenizer.pad, tokenizer.unknown, tokenizer.sep, tokenizer.cls)
    return next((one for one in known if one is not None), 0)
