"""Several processes, one run: started by torchrun, gloo on CPU, nccl on GPU."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn

from tianci.errors import Failed, UserError

T = TypeVar("T")
GONE = ("connection", "peer", "gloo", "nccl", "socket")  # in what the libraries say then
BUCKET = 8 << 20  # numbers of one message


@dataclass(frozen=True)
class World:
    """Which process this is, and of how many."""

    rank: int = 0
    size: int = 1
    device: str = "cpu"

    @property
    def first(self) -> bool:
        return self.rank == 0


def join() -> World:
    """Joins the other processes if torchrun started us; else stays alone."""
    local = int(os.environ.get("LOCAL_RANK", 0))
    device = f"cuda:{local}" if torch.cuda.is_available() else "cpu"
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return World(device=device)
    if not dist.is_initialized():
        if device != "cpu":
            torch.cuda.set_device(device)
        dist.init_process_group("gloo" if device == "cpu" else "nccl")
        # gloo's threads let go of tensors a moment after the last exchange; if Python has begun to
        # end by then, they end the process with it (SIGABRT)
        atexit.register(leave)
    return World(dist.get_rank(), dist.get_world_size(), device)


def share(module: nn.Module, world: World) -> None:
    """All processes begin with the first one's weights."""
    if world.size > 1:
        for tensor in module.state_dict().values():
            dist.broadcast(tensor, 0)


def exchange(parameters: Sequence[nn.Parameter], world: World) -> None:
    """Gradients become their sums over all processes, when each has finished its own.

    Not DistributedDataParallel: it exchanges inside of backward, where a process whose memory has
    run out would leave the others waiting.
    """
    if world.size == 1:
        return
    there = torch.tensor([float(p.grad is not None) for p in parameters], device=world.device)
    dist.all_reduce(there)  # a part of the model may have had nothing to do in one process
    gradients: list[torch.Tensor] = []
    for parameter, used in zip(parameters, there.tolist(), strict=True):
        if used and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        if parameter.grad is not None:
            gradients.append(parameter.grad)
    for bucket in _buckets(gradients):
        flat = torch.cat([g.reshape(-1) for g in bucket])
        dist.all_reduce(flat)
        parts = torch.split(flat, [g.numel() for g in bucket])
        for gradient, part in zip(bucket, parts, strict=True):
            gradient.copy_(part.view_as(gradient))


def _buckets(gradients: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Neighbours together: many small messages take longer than one."""
    bucket: list[torch.Tensor] = []
    for gradient in gradients:
        bucket.append(gradient)
        if sum(g.numel() for g in bucket) >= BUCKET:
            yield bucket
            bucket = []
    if bucket:
        yield bucket


def total(values: torch.Tensor, world: World) -> torch.Tensor:
    """The sum over all processes."""
    if world.size == 1:
        return values
    there = values.to(world.device)
    dist.all_reduce(there)
    return there.to(values.device)


def largest(value: float, world: World) -> float:
    """The largest value of all processes."""
    if world.size == 1:
        return value
    shared = torch.tensor([value], dtype=torch.float64, device=world.device)
    dist.all_reduce(shared, op=dist.ReduceOp.MAX)
    return float(shared.item())


def agree(value: float, world: World) -> float:
    """The first process's value, for all: clocks differ, decisions must not."""
    if world.size == 1:
        return value
    # on the device itself: nccl cannot see the host, and a copy would not come back
    shared = torch.tensor([value], dtype=torch.float64, device=world.device)
    dist.broadcast(shared, 0)
    return float(shared.item())


def either(flags: Sequence[bool], world: World) -> list[bool]:
    """Which flags any of the processes has set: a signal that reaches one is for all."""
    if world.size == 1:
        return list(flags)
    shared = torch.tensor(flags, dtype=torch.int32, device=world.device)
    dist.all_reduce(shared, dist.ReduceOp.MAX)
    return [bool(flag) for flag in shared.tolist()]


def of_first(ask: Callable[[], T], world: World) -> T:
    """What the first process finds, for all of them; its refusal is everybody's."""
    if world.size == 1:
        return ask()
    found: list[Any] = [None, None]
    if world.first:
        try:
            found[0] = ask()
        except UserError as error:
            found[1] = str(error)
    dist.broadcast_object_list(found, 0)
    if found[1] is not None:
        raise UserError(found[1])
    answer: T = found[0]
    return answer


@contextmanager
def together(world: World, how: str) -> Iterator[None]:
    """One sentence instead of the library's, when another process has gone."""
    try:
        yield
    except RuntimeError as error:
        if world.size == 1 or not any(word in str(error).lower() for word in GONE):
            raise
        raise Failed(f"another process of this run has ended; go on with: {how}") from error


def leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
