"""AdamW, and BERT's own Adam without bias correction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from tianci.train.settings import Train


def decayed(name: str, parameter: Tensor) -> bool:
    """Biases and the gains of norms are one-dimensional; they are not pulled to zero."""
    return parameter.dim() > 1


def make(modules: Iterable[nn.Module], settings: Train, lr: float) -> torch.optim.Optimizer:
    """One optimizer over all modules: a group with decay and a group without."""
    decay: list[Tensor] = []
    plain: list[Tensor] = []
    for module in modules:
        for name, parameter in module.named_parameters():
            if parameter.requires_grad:
                (decay if decayed(name, parameter) else plain).append(parameter)
    groups: list[dict[str, Any]] = [
        {"params": decay, "weight_decay": settings.weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]
    betas = (settings.beta1, settings.beta2)
    if settings.optimizer == "bert-adam":
        return BertAdam(groups, lr=lr, betas=betas, eps=settings.eps)
    return torch.optim.AdamW(groups, lr=lr, betas=betas, eps=settings.eps, fused=True)


class BertAdam(torch.optim.Optimizer):
    """Adam as in google-research/bert: decoupled decay, no bias correction (so warm-up is a
    must)."""

    def __init__(self, params: Any, lr: float, betas: tuple[float, float], eps: float):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # no closure is ever given
        for group in self.param_groups:
            (beta1, beta2), eps, lr = group["betas"], group["eps"], group["lr"]
            parameters = [p for p in group["params"] if p.grad is not None]
            if not parameters:
                continue
            gradients = [p.grad for p in parameters]
            for p in parameters:
                if not self.state[p]:
                    self.state[p]["exp_avg"] = torch.zeros_like(p)
                    self.state[p]["exp_avg_sq"] = torch.zeros_like(p)
            first = [self.state[p]["exp_avg"] for p in parameters]
            second = [self.state[p]["exp_avg_sq"] for p in parameters]
            torch._foreach_lerp_(first, gradients, 1 - beta1)
            torch._foreach_mul_(second, beta2)
            torch._foreach_addcmul_(second, gradients, gradients, 1 - beta2)
            update = torch._foreach_sqrt(second)
            torch._foreach_add_(update, eps)
            update = torch._foreach_div(first, update)
            if group["weight_decay"]:
                torch._foreach_add_(update, parameters, alpha=group["weight_decay"])
            torch._foreach_add_(parameters, update, alpha=-lr)
