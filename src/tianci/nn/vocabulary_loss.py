"""Cross entropy over a large vocabulary without keeping the logits.

Shapes: M judged tokens, W width, V vocabulary. Logits are made, judged and turned into gradients a
few rows at a time, while they are in cache; a plain cross entropy writes and reads M x V numbers
five times. Under autocast the three products are made in its precision, everything between them
and the sums in float32.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tianci.nn.few_shapes import longer

CHUNK = 4_000_000  # numbers in one piece of logits; smaller pieces make the products slow


class _Fused(torch.autograd.Function):
    """Forward already computes the gradients: the loss is a sum, so they only wait for a factor."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, table: Tensor, bias: Tensor, answers: Tensor
    ) -> tuple[Tensor, Tensor]:
        wanted = x.requires_grad or table.requires_grad or bias.requires_grad
        rows = max(16, CHUNK // max(1, table.shape[0]))
        device = x.device.type
        cast = torch.is_autocast_enabled(device)
        product = torch.get_autocast_dtype(device) if cast else x.dtype
        exact = torch.float32 if cast else x.dtype
        ctx.dtypes = x.dtype, table.dtype, bias.dtype
        x, entries, bias = x.to(product), table.to(product), bias.to(exact)
        total = x.new_zeros((), dtype=torch.float64)
        hits = torch.zeros((), dtype=torch.int64, device=x.device)
        dx = torch.empty_like(x) if wanted else None
        dtable = torch.zeros_like(table, dtype=exact) if wanted else None
        dbias = torch.zeros_like(bias) if wanted else None
        for start in range(0, len(x), rows):
            part, answer = x[start : start + rows], answers[start : start + rows, None]
            logits = _logits(part, entries, bias)[: len(answer)]
            best = logits.max(-1, keepdim=True)
            hits += torch.eq(best.indices, answer).sum()
            right = logits.gather(1, answer)
            logits -= best.values
            logits.exp_()
            mass = logits.sum(-1, keepdim=True)
            total += (mass.log() + best.values - right).sum(dtype=torch.float64)
            if wanted:
                assert dx is not None and dtable is not None and dbias is not None
                logits /= mass
                logits.scatter_add_(1, answer, -torch.ones_like(right))
                dbias += logits.sum(0)
                # no error where there is no answer
                errors = longer(logits.to(product), len(part))
                torch.mm(errors, entries, out=dx[start : start + rows])
                if cast:  # each piece is rounded, their sum is not
                    dtable += errors.t() @ part
                else:
                    dtable.addmm_(errors.t(), part)
        ctx.save_for_backward(*(g for g in (dx, dtable, dbias) if g is not None))
        ctx.mark_non_differentiable(hits)
        return total.to(exact), hits

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        factor = gradients[0]
        found = zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        dx, dtable, dbias = (gradient.to(dtype).mul_(factor) for gradient, dtype in found)
        return dx, dtable, dbias, None


def _logits(x: Tensor, entries: Tensor, bias: Tensor) -> Tensor:
    """x @ entries' + bias; the bias is added in its own precision."""
    if x.dtype == bias.dtype:
        return torch.addmm(bias, x, entries.t())
    return (x @ entries.t()) + bias


def vocabulary_loss(
    x: Tensor, table: Tensor, bias: Tensor, answers: Tensor
) -> tuple[Tensor, Tensor]:
    """(summed cross entropy of x @ table' + bias, number of answers that have the highest
    logit); rows of x behind the answers are not judged (few_shapes.py)."""
    total, hits = _Fused.apply(x, table, bias, answers)  # type: ignore[no-untyped-call]
    return total, hits
