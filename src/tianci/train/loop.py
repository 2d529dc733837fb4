"""The training loop, read from top to bottom. It knows goals, not their names; it has no
callbacks."""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from tianci.batch import Batch
from tianci.checkpoint import Checkpoint
from tianci.goals.base import Joint, Loss
from tianci.train import fitting, optimizer, parallel, schedule, trouble
from tianci.train.examples import Ids, Position
from tianci.train.parallel import World
from tianci.train.settings import Train
from tianci.train.state import State


class Drawn(Protocol):
    """Numbered examples that can be packed."""

    @property
    def lengths(self) -> Ids:
        """How many tokens each of them has."""

    def batch(self, numbers: Ids) -> Batch:
        """The examples of these numbers."""


class Source(Protocol):
    """Batches in a repeatable order, from any position: a corpus, or the rows of a task."""

    def draws(self, position: Position) -> Iterator[tuple[Drawn, Ids, Position]]:
        """Endlessly: examples, the numbers of a batch among them, and the position after it."""

    def done(self, position: Position) -> float:
        """How many epochs lie before a position."""


class Learner(nn.Module):
    """Model, heads and goal as one module: a batch in, the losses out."""

    def __init__(self, model: Checkpoint, goal: Joint):
        super().__init__()
        self.model, self.heads = model.model, nn.ModuleDict(model.heads)
        self.goal = goal

    def forward(self, batch: Batch, counts: dict[str, int]) -> tuple[Tensor, dict[str, Loss]]:
        losses = self.goal.losses(self.model, dict(self.heads.items()), batch)
        parts = [loss.total / max(1, counts[name]) for name, loss in losses.items()]
        return torch.stack(parts).sum(), losses


@dataclass
class Step:
    """What one step showed."""

    number: int
    loss: float
    parts: dict[str, float]  # mean loss of each goal
    accuracy: dict[str, float]
    lr: float
    gradient: float  # norm before clipping
    tokens: int
    seconds: float


def mean_of(steps: Sequence[Step]) -> dict[str, Any]:
    """Several steps as one line of the journal."""
    n, names = len(steps), steps[0].parts
    seconds = sum(step.seconds for step in steps)
    return {
        "step": steps[-1].number,
        "loss": sum(step.loss for step in steps) / n,
        "parts": {name: sum(step.parts[name] for step in steps) / n for name in names},
        "accuracy": {name: sum(step.accuracy[name] for step in steps) / n for name in names},
        "lr": steps[-1].lr,
        "gradient": max(step.gradient for step in steps),
        "tokens_per_second": sum(step.tokens for step in steps) / max(1e-9, seconds),
    }


Learned = tuple[Tensor, Counter[str]]
# how an attempt at a step ends; where processes differ, the largest decides for all
LEARNED, OUT_OF_MEMORY, ASKED_TO_STOP = 0.0, 1.0, 2.0
MICRO_TOKENS = 8192  # where nobody has said


@dataclass
class Loop:
    """Everything a run needs; `run` goes from the state it finds to the end."""

    model: Checkpoint
    goal: Joint
    optimizer: torch.optim.Optimizer
    settings: Train
    lr: float
    warmup: float
    data: Callable[[int], Source]  # phase -> examples of that phase's length
    state: State = field(default_factory=State)
    world: World = field(default_factory=World)
    bf16: bool = False
    seed: int = 0
    on_step: Callable[[Step], None] = lambda step: None
    save: Callable[[State], None] = lambda state: None
    evaluate: Callable[[State], None] = lambda state: None
    thaw: Callable[[float], None] = lambda epochs: None  # who may learn from here on
    go_back: Callable[[], State] | None = None  # loads the last good state and tells it
    note: Callable[..., None] = lambda event, message, **values: None  # what people should know
    save_seconds: float = 600.0
    stopping: bool = False  # set from outside: finish or leave this step, save, and return
    reached: float = 0.0  # how much of the run is done, from 0 to 1, as all processes see it

    def progress(self) -> float:
        """How much of the run is done, by the limit that is reached first; all processes must ask
        together."""
        s, state = self.settings, self.state
        shares: list[float] = []
        if s.steps is not None:
            shares.append(state.step / s.steps)
        if s.minutes is not None:
            shares.append(parallel.agree(state.seconds / (60 * s.minutes), self.world))
        if s.tokens is not None:
            shares.append(state.tokens / s.tokens)
        if s.epochs is not None or not shares:
            shares.append(self.data(state.phase).done(state.position) / (s.epochs or 1.0))
        return max(shares)

    def run(self) -> None:
        """Trains until the limit is reached or somebody asks to stop."""
        learner = Learner(self.model, self.goal).train()
        parallel.share(learner, self.world)
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        last_save = time.monotonic()
        batches = self._batches()
        self.reached = self.progress()
        (stop,) = parallel.either([self.stopping], self.world)
        while self.reached < 1 and not stop:
            began, progress = time.monotonic(), self.reached
            if self._enter_phase(progress):
                batches = self._batches()
            pool, numbers, position = next(batches)
            lr = self.lr * self.state.rate
            lr *= schedule.rate(progress, self.warmup, self.settings.schedule)
            for group in self.optimizer.param_groups:
                group["lr"] = lr * group.get("scale", 1.0)
            self.thaw(self.data(self.state.phase).done(self.state.position))
            learned = self._learn(learner, pool, numbers)
            if learned is None:
                return  # the step has changed nothing: a resumed run begins it again
            sums, counts = learned
            parallel.exchange(parameters, self.world)
            sums = parallel.total(sums, self.world)
            limit = self.settings.clip or float("inf")
            norm = optimizer.clip(parameters, limit)
            good = math.isfinite(norm) and bool(torch.isfinite(sums).all())
            good = bool(parallel.agree(float(good), self.world))
            if good:
                self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)

            tokens = int(pool.lengths[numbers].sum())
            self.state.step += 1
            self.state.tokens += tokens
            self.state.position = position
            self.state.seconds += time.monotonic() - began
            self.reached = self.progress()
            step = self._step(sums, counts, lr, norm, tokens, time.monotonic() - began)
            if good:
                trouble.count_good(self.state)
                self.on_step(step)
            elif self._skip(step, pool, numbers):
                batches, last_save = self._batches(), time.monotonic()
                (stop,) = parallel.either([self.stopping], self.world)
                continue

            self.evaluate(self.state)  # before saving: what it says belongs to this checkpoint
            every = self.settings.save_every
            due = (
                self.state.step % every == 0
                if every
                else time.monotonic() - last_save > self.save_seconds
            )
            # not while steps are skipped: what is saved should be good to go back to
            due = due and not self.state.bad
            due, stop = parallel.either([due, self.stopping], self.world)
            if due:
                self.save(self.state)
                last_save = time.monotonic()

    def _enter_phase(self, progress: float) -> bool:
        """Moves to the last, longer sequences when their time has come."""
        s = self.settings
        if s.last_length and self.state.phase == 0 and progress >= 1 - s.last_share:
            before = self.data(0).done(self.state.position)
            self.state.phase, self.state.position = 1, Position(before=before)
            return True
        return False

    def _batches(self) -> Iterator[tuple[Drawn, Ids, Position]]:
        return self.data(self.state.phase).draws(self.state.position)

    def _learn(self, learner: Learner, pool: Drawn, numbers: Ids) -> Learned | None:
        """Gradients of this process's share of a batch, its sums, and the counts of all of it.

        Where memory runs out, the pieces become smaller, for the rest of the run, and the step
        begins again with the same dice. None if somebody asked to stop between two pieces.
        """
        while True:
            # dice are a function of the step: a resumed run drops out the same units
            torch.manual_seed((self.seed * 1_000_003 + self.state.step) * 1_009 + self.world.rank)
            pieces, found, end = self._pieces(pool, numbers), None, OUT_OF_MEMORY
            try:
                found = self._gradients(learner, pool, numbers, pieces)
                end = ASKED_TO_STOP if found is None else LEARNED
            except (RuntimeError, MemoryError) as error:
                if not fitting.ran_out(error):
                    raise
            # here, where the error is gone: it would keep the tensors of the attempt alive
            worst = parallel.largest(end, self.world)
            if worst == LEARNED:
                return found
            self.optimizer.zero_grad(set_to_none=True)
            if worst == ASKED_TO_STOP:
                return None
            found = None
            fitting.let_go()
            self._shrink([int(pool.lengths[piece].sum()) for piece in pieces], pieces)

    def _pieces(self, pool: Drawn, numbers: Ids) -> list[Ids]:
        """This process's share of a batch, in pieces that fit."""
        mine = numbers[self.world.rank :: self.world.size]
        if not len(mine):
            return []
        most = _most(self.state, self.settings)
        count = min(len(mine), max(1, -(-int(pool.lengths[mine].sum()) // most)))
        pieces = np.array_split(mine, count)
        # equal numbers of sequences may be very unequal numbers of tokens
        while count < len(mine) and max(int(pool.lengths[p].sum()) for p in pieces) > most:
            count += 1
            pieces = np.array_split(mine, count)
        return pieces

    def _gradients(
        self, learner: Learner, pool: Drawn, numbers: Ids, pieces: Sequence[Ids]
    ) -> Learned | None:
        micros = [pool.batch(piece) for piece in pieces]
        # of the whole batch, all processes together: sums are divided once
        counts = Counter[str]()
        for part in micros if self.world.size == 1 else [pool.batch(numbers)]:
            counts.update(self.goal.count(part))
        sums = torch.zeros(len(self.goal.parts), 2, dtype=torch.float64)
        for number, micro in enumerate(micros):
            if number and self.stopping:
                return None  # large models take long for a step
            with autocast(self.bf16, self.world.device):
                loss, parts = learner(micro.to(self.world.device), counts)
                loss.backward()
            sums += torch.stack(
                [torch.stack([p.total.detach(), p.hits]).double().cpu() for p in parts.values()]
            )
        return sums, counts

    def _shrink(self, sizes: Sequence[int], pieces: Sequence[Ids]) -> None:
        """Halves the tokens of a forward pass, in all processes."""
        size = int(parallel.largest(float(max(sizes, default=0)), self.world))
        most = parallel.largest(float(max(map(len, pieces), default=0)), self.world)
        if most <= 1:
            raise fitting.TooLarge(size)
        # always less than before: two sequences may share a piece that is larger than was asked
        limit = _most(self.state, self.settings)
        smaller = max(1, size // 2 if size // 2 < limit else limit // 2)
        self.state.micro_tokens = smaller
        self.note(
            "memory",
            f"step {self.state.step + 1}: memory ran out with {size:,} tokens at once; from here "
            f"on at most {smaller:,} at once and more passes for a step; the result is the same",
            micro_tokens=smaller,
        )

    def _skip(self, step: Step, pool: Drawn, numbers: Ids) -> bool:
        """Does something about a step that gave no number; whether the run went back."""
        state, number = self.state, step.number
        decision = trouble.count_bad(state)
        if decision != "skip" and self.go_back is None:
            decision = "stop"
        if decision == "stop":
            raise trouble.NotANumber(number, pool.batch(numbers), step.loss, step.gradient)
        if decision == "skip":
            self.note(
                "skip",
                f"step {number}: the loss is not a number; the step is skipped",
                loss=str(step.loss),
                gradient=str(step.gradient),
                skipped=state.skipped,
            )
            return False
        assert self.go_back is not None
        trouble.put_back(state, self.go_back())
        self.reached = self.progress()
        self.note(
            "return",
            f"step {number}: {trouble.TOO_MANY} steps without a number; back to step {state.step}, "
            f"from there on with {state.rate:g} of the rate",
            failed=number,
            rate=state.rate,
            skipped=state.skipped,
        )
        parallel.agree(0.0, self.world)  # all have read before the first one writes
        self.save(state)
        return True

    def _step(
        self,
        sums: Tensor,
        counts: dict[str, int],
        lr: float,
        norm: float,
        tokens: int,
        seconds: float,
    ) -> Step:
        rows = dict(zip(counts, sums.tolist(), strict=True))
        means = {name: rows[name][0] / max(1, counts[name]) for name in counts}
        right = {name: rows[name][1] / max(1, counts[name]) for name in counts}
        return Step(self.state.step, sum(means.values()), means, right, lr, norm, tokens, seconds)


def _most(state: State, settings: Train) -> int:
    """Tokens of one forward pass."""
    usual = settings.micro_tokens or MICRO_TOKENS
    return min(state.micro_tokens or usual, usual)


def autocast(bf16: bool, device: str) -> contextlib.AbstractContextManager[Any]:
    """Products in bf16, or everything as it is."""
    return torch.autocast(device.partition(":")[0], torch.bfloat16, enabled=bf16)


@torch.no_grad()
def measure(
    model: Checkpoint, goal: Joint, batches: list[Batch], device: str, bf16: bool = False
) -> dict[str, Any]:
    """Mean loss and accuracy of each goal over some batches, without dropout."""
    learner = Learner(model, goal)
    was = learner.training
    learner.eval()
    sums = {part.name: [0.0, 0.0, 0] for part in goal.parts}
    for batch in batches:
        with autocast(bf16, device):
            losses = goal.losses(model.model, model.heads, batch.to(device))
        for name, count in goal.count(batch).items():
            sums[name][0] += float(losses[name].total)
            sums[name][1] += float(losses[name].hits)
            sums[name][2] += count
    learner.train(was)
    return {
        name: {"loss": total / max(1, n), "accuracy": hits / max(1, n), "count": n}
        for name, (total, hits, n) in sums.items()
    }
