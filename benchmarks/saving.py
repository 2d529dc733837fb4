"""What saving costs: BERT-base (1.3 GB with Adam's moments), one checkpoint against one interval.

Blocks of a few training steps alternate: alone, with a save between two of them, and with the same
save in a thread beside them (for which everything is copied first, as it would have to be). What a
save costs is how much longer a block takes with it, so that slower steps after it count too.

    python benchmarks/saving.py [--rounds 3] [--steps 4] [--preset bert-base] [--folder DIR]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from pathlib import Path

import torch
from arena import machine, read_options

from tianci import checkpoint
from tianci.goals.objectives import parse
from tianci.models import preset
from tianci.train import optimizer, probe, state
from tianci.train.loop import Learner, Loop
from tianci.train.settings import Train

LENGTH, ROWS = 128, 1
INTERVALS = (Loop.save_seconds, 60.0, 10.0)  # seconds; the first is the default


class Training:
    """A model that takes steps and can be saved."""

    def __init__(self, name: str):
        kind, config = preset(name)
        self.model = checkpoint.create(kind, config, ("masked",))
        self.learner = Learner(self.model, parse("masked")).train()
        self.adam = optimizer.make([self.learner], Train(steps=1), 1e-5)
        self.batch = probe.random_batch(config.vocabulary, LENGTH, ROWS)
        self.counts = parse("masked").count(self.batch)
        self.number = 0

    def steps(self, count: int) -> None:
        for _ in range(count):
            loss, _ = self.learner(self.batch, self.counts)
            loss.backward()
            self.adam.step()
            self.adam.zero_grad(set_to_none=True)

    def save(self, run: Path) -> Path:
        self.number += 1
        return state.save(run, self.model, self.adam, state.State(step=self.number), keep=2)

    def copy(self) -> list[torch.Tensor]:
        """What a thread would need to write while training goes on."""
        moments = [t for of in self.adam.state.values() for t in of.values()]
        return [t.detach().clone() for t in (*self.learner.parameters(), *moments)]


def block(training: Training, steps: int, run: Path, how: str) -> float:
    """Seconds of a block of steps."""
    began = time.perf_counter()
    training.steps(steps // 2)
    thread = None
    if how == "save":
        training.save(run)
    elif how == "thread":
        kept = training.copy()
        thread = threading.Thread(target=training.save, args=(run,))
        thread.start()
        del kept
    training.steps(steps - steps // 2)
    if thread:
        thread.join()
    return time.perf_counter() - began


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--steps", type=int, default=4)
    options.add_argument("--preset", default="bert-base")
    options.add_argument("--folder", help="where to save (default: the temporary directory)")
    chosen = read_options(options, rounds=1)
    training = Training(chosen.preset)
    training.steps(2)  # moments exist from the first step on
    times: dict[str, list[float]] = {"alone": [], "save": [], "thread": []}
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        size = sum(p.stat().st_size for p in training.save(Path(folder)).rglob("*") if p.is_file())
        for _ in range(chosen.rounds):
            for how, found in times.items():
                found.append(block(training, chosen.steps, Path(folder), how))
    usual = statistics.median(times["alone"])
    print(f"### What saving costs: {chosen.preset}, {size / 1e9:.2f} GB, {machine()}\n")
    print(f"{chosen.steps} steps of {LENGTH * ROWS} tokens alone: {usual:.2f} s; "
          f"medians of {chosen.rounds} rounds\n")  # fmt: skip
    print("| saved | one save costs | " + " | ".join(f"every {i:.0f} s" for i in INTERVALS) + " |")
    print("|---|---|" + "---|" * len(INTERVALS))
    holds = True
    for name, how in (
        ("between two steps", "save"),
        ("in a thread (not what tianci does)", "thread"),
    ):
        cost = statistics.median(t - a for t, a in zip(times[how], times["alone"], strict=True))
        shares = [cost / (interval + cost) for interval in INTERVALS]
        if how == "save":
            holds = shares[0] < 0.02
        print(f"| {name} | {cost:.2f} s | " + " | ".join(f"{s:.2%}" for s in shares) + " |")
    raise SystemExit(0 if holds else 1)


if __name__ == "__main__":
    main()
