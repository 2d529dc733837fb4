"""AdamW, BERT's own Adam without bias correction, and clipping.

torch's own AdamW imports torch's compiler when it is made: 67 MB of memory and more than a second,
for nothing that is used here. `Light` leaves that out; the kernel and its results are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    return adamw(groups, lr, betas, settings.eps)


def adamw(
    groups: list[dict[str, Any]], lr: float, betas: tuple[float, float], eps: float
) -> torch.optim.Optimizer:
    """AdamW by torch's fused kernel, one call for each group."""
    if all(p.device.type == "cpu" for group in groups for p in group["params"]):
        return AdamW(groups, lr=lr, betas=betas, eps=eps)
    return torch.optim.AdamW(groups, lr=lr, betas=betas, eps=eps, fused=True)


@torch.no_grad()
def clip(parameters: Sequence[Tensor], limit: float) -> float:
    """The norm of all gradients, which are made smaller if it is above the limit.

    As clip_grad_norm_, to the bit; but gradients that stay as they are are not written again.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    factor = limit / (norm + 1e-6)
    if not factor >= 1.0:
        torch._foreach_mul_(gradients, factor)
    return float(norm)


MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # what torch's AdamW keeps of each weight
_add = torch.optim.Optimizer.add_param_group
_add = getattr(_add, "__wrapped__", _add)  # what is around it imports the compiler


class Light(torch.optim.Optimizer):
    """An optimizer of torch that does without torch's compiler."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        _add(self, param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets all gradients."""
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None


class AdamW(Light):
    """torch.optim.AdamW(fused=True) on the CPU, with the same state under the same names."""

    kept = MOMENTS

    def __init__(self, params: Any, lr: float, betas: tuple[float, float], eps: float):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # no closure is ever given
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            if not parameters:
                continue
            for p in parameters:
                if not self.state[p]:
                    self.state[p]["step"] = torch.zeros(())
                    self.state[p]["exp_avg"] = torch.zeros_like(p)
                    self.state[p]["exp_avg_sq"] = torch.zeros_like(p)
            kept = [self.state[p] for p in parameters]
            steps = [state["step"] for state in kept]
            torch._foreach_add_(steps, 1)
            torch._fused_adamw_(
                parameters,
                [p.grad for p in parameters],
                [state["exp_avg"] for state in kept],
                [state["exp_avg_sq"] for state in kept],
                [],
                steps,
                lr=group["lr"],
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                amsgrad=False,
                maximize=False,
            )


class BertAdam(Light):
    """Adam as in google-research/bert: decoupled decay, no bias correction (so warm-up is a
    must)."""

    kept = MOMENTS[1:]

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
