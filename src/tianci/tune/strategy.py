"""Which parameters learn, how fast, and from when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from tianci.checkpoint import Checkpoint
from tianci.errors import UserError
from tianci.models.base import Model
from tianci.nn import adapter, initial
from tianci.nn.crf import ChainField
from tianci.train.optimizer import BertAdam, adamw, decayed
from tianci.tune.settings import Finetune

Thaw = Callable[[float], None]
ADAPTER = 64  # width of a bottleneck where nobody has said
CRF_RATE = 1e-2  # conll2003, 500 rows: F1 .435 at 2e-4, .493 at 4e-3, .508 at 2e-2 (LOG.md)


def shape(model: Checkpoint, settings: Finetune) -> None:
    """Changes the model before it learns: fewer layers, new top layers, adapters, dropout."""
    body = model.model
    if settings.layers:
        body.keep_layers(settings.layers)
    for block in _renewed(body, settings):
        renew(block, body.config.initial_std)
    if "adapters" in settings.strategies:
        width = body.config.width
        if settings.adapter_size > width:  # reading the result would refuse it
            raise UserError(
                f"--adapter-size is {settings.adapter_size}, but the model is only {width} wide; "
                "a bottleneck is narrower"
            )
        adapter.insert(body, width, settings.adapter_size or min(ADAPTER, width))
    set_dropout(model, settings)


def _renewed(body: Model, settings: Finetune) -> list[nn.Module]:
    """The layers that start anew."""
    if not settings.reinit:
        return []
    blocks = body.depth()[1:]
    if settings.reinit > len(blocks):
        raise UserError(f"--reinit is {settings.reinit}, but the model has {len(blocks)} layers")
    return blocks[-settings.reinit :]


def set_dropout(model: Checkpoint, settings: Finetune) -> None:
    """The dropout of this run; the configuration keeps its own."""
    if settings.dropout is None:
        return
    for part in (model.model, *model.heads.values()):
        for module in part.modules():
            if hasattr(module, "dropout"):
                setattr(module, "dropout", settings.dropout)  # noqa: B010  (typed as a module)


def renew(block: nn.Module, std: float) -> None:
    """Draws a block's weights anew."""
    initial.normal(block, std)
    for part in block.modules():
        if isinstance(part, nn.LayerNorm):
            part.reset_parameters()


def choose(model: Checkpoint, settings: Finetune) -> None:
    """Says of every parameter whether it learns."""
    chosen = settings.strategies
    norms = _norms(model.model)
    for name, parameter in model.model.named_parameters():
        parameter.requires_grad_(
            "full" in chosen
            or ("adapters" in chosen and (adapter.is_adapter(name) or name in norms))
            or ("norms-biases" in chosen and (name in norms or name.endswith("bias")))
        )
    for block in _renewed(model.model, settings):  # fresh weights are worth nothing unless learned
        block.requires_grad_(True)
    for head in model.heads.values():
        head.requires_grad_(True)


def _norms(body: nn.Module) -> set[str]:
    return {
        f"{place}.{name}"
        for place, module in body.named_modules()
        if "norm" in type(module).__name__.lower() and not list(module.children())
        for name, _ in module.named_parameters(recurse=False)
    }


def optimizer(model: Checkpoint, settings: Finetune, lr: float) -> torch.optim.Optimizer:
    """One group per layer and kind: a layer's rate falls with its distance from the head."""
    chains = [m for h in model.heads.values() for m in h.modules() if isinstance(m, ChainField)]
    own = {id(p) for chain in chains for p in chain.parameters()}
    groups: list[dict[str, Any]] = []
    if chains:
        # transitions are log-odds, learned from nothing: at a model's rate they would hardly move
        params = [p for chain in chains for p in chain.parameters()]
        groups.append({"params": params, "scale": CRF_RATE / lr, "weight_decay": 0.0})
    for scale, modules in _levels(model, settings):
        for decay in (True, False):
            members = [
                p
                for module in modules
                for name, p in module.named_parameters()
                if p.requires_grad and decayed(name, p) == decay and id(p) not in own
            ]
            if members:
                groups.append(
                    {
                        "params": members,
                        "scale": scale,
                        "weight_decay": settings.weight_decay if decay else 0.0,
                    }
                )
    if not groups:
        raise UserError(
            f"strategy {settings.strategy} leaves nothing to learn: this task has no head with "
            "weights; use strategy full or adapters"
        )
    if settings.optimizer == "bert-adam":
        return BertAdam(groups, lr=lr, betas=(0.9, 0.999), eps=1e-6)
    return adamw(groups, lr, (0.9, 0.999), 1e-8)


def _levels(model: Checkpoint, settings: Finetune) -> Iterator[tuple[float, list[nn.Module]]]:
    """(factor on the rate, modules), the head first."""
    yield 1.0, list(model.heads.values())
    parts = model.model.depth()
    seen = {id(p) for part in parts for p in part.parameters()}
    rest = [p for p in model.model.parameters() if id(p) not in seen]
    if settings.layer_rates == 1.0:
        yield 1.0, [model.model]
        return
    for down, part in enumerate(reversed(parts)):
        yield settings.layer_rates ** (down + 1), [part]
    if rest:
        yield settings.layer_rates, [_Loose(rest)]


class _Loose(nn.Module):
    """Parameters that belong to no layer (a last norm)."""

    def __init__(self, parameters: list[nn.Parameter]):
        super().__init__()
        self.loose = nn.ParameterList(parameters)


def thaw(model: Checkpoint, settings: Finetune) -> Thaw:
    """A function of the epochs done that lets one more layer learn in each epoch (ULMFiT)."""
    if not settings.unfreeze:
        return lambda epochs: None
    parts = model.model.depth()

    def open_to(epochs: float) -> None:
        free = int(epochs)  # the head alone in the first epoch
        for down, part in enumerate(reversed(parts)):
            part.requires_grad_(down < free)

    return open_to


def learning(model: Checkpoint) -> tuple[int, int]:
    """(parameters that learn, all parameters)."""
    everything = [p for m in (model.model, *model.heads.values()) for p in m.parameters()]
    return sum(p.numel() for p in everything if p.requires_grad), sum(p.numel() for p in everything)
