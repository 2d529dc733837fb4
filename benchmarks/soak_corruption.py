"""Long versions of the tests of damage: mutations by the thousand, numbers and memory that fail at
random. Prints a table; `make soak` calls it.

    python benchmarks/soak_corruption.py [--mutations 20000] [--runs 30]
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("TQDM_DISABLE", "1")

import torch
from tests.mutations import KINDS, damaged
from tests.train.conftest import make_store

import tianci
from tianci import checkpoint
from tianci.errors import Failed
from tianci.models import bert
from tianci.train import journal, session, state
from tianci.train.loop import Learner, Loop
from tianci.verify import verify

SIZES = {"width": 32, "layers": 1, "heads": 2, "hidden": 64, "positions": 64}


def make_run(folder: Path) -> Path:
    """Two checkpoints of a tiny model."""
    torch.manual_seed(0)
    model = checkpoint.create("bert", bert.Config(vocabulary=45, **SIZES), ("masked",))
    parts = [model.model, *model.heads.values()]
    adam = torch.optim.AdamW([p for part in parts for p in part.parameters()])
    for step in (1, 2):
        for parameter in (p for group in adam.param_groups for p in group["params"]):
            parameter.grad = torch.ones_like(parameter)
        adam.step()
        state.save(folder / "run", model, adam, state.State(step), keep=2)
    return folder / "run"


def mutate(store: Path, run: Path, count: int, rng: np.random.Generator) -> tuple[int, int, int]:
    """(tried, found, fallen back) over damage of random files."""
    newest, before = run / "checkpoints/step-00000002", run / "checkpoints/step-00000001"
    targets = [
        (folder, path)
        for folder in (newest, store)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    found = back = 0
    for _ in range(count):
        folder, path = targets[int(rng.integers(len(targets)))]
        with damaged(path, KINDS[int(rng.integers(len(KINDS)))], rng):
            found += bool(verify(folder)[0].bad)
            back += folder != newest or state.newest(run) == before
    return count, found, back


def one_training(store: Path, out: Path, rng: np.random.Generator, odds: float) -> str:
    """A short run with faults at random; what became of it, in a word."""
    good_step, good_forward = Loop._gradients, Learner.forward
    room = int(rng.integers(60, 180))

    def faulty(self: Loop, learner: Any, *rest: Any) -> Any:
        sums, counts = good_step(self, learner, *rest)
        if rng.random() < odds:
            if rng.random() < 0.5:
                sums[0, 0] = math.nan
            else:
                next(p for p in learner.parameters() if p.grad is not None).grad.fill_(math.inf)
        return sums, counts

    def narrow(self: Learner, batch: Any, counts: Any) -> Any:
        if len(batch.tokens) > room:
            raise MemoryError
        return good_forward(self, batch, counts)

    Loop._gradients, Learner.forward = faulty, narrow  # type: ignore[method-assign]
    try:
        tianci.pretrain(
            corpus=store, preset="tiny", out=out, steps=60, save_every=5, length=48,
            batch_tokens=256, model=SIZES, objective="masked", precision="float32",
        )  # fmt: skip
    except Failed:
        return "stopped" if list(out.glob("batch-step-*.json")) else "failed"
    finally:
        Loop._gradients, Learner.forward = good_step, good_forward  # type: ignore[method-assign]
    tianci.load(out)  # refuses weights that are not finite
    whole = all(not report.bad for report in verify(out))
    events = {entry["event"] for entry in journal.read(out / "log.jsonl")}
    return "finished" if whole and "memory" in events else "failed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args()
    print(f"seed {asked.seed}")
    session.Session._pictures = lambda self: None  # type: ignore[method-assign]
    rng = np.random.default_rng(asked.seed)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        store, run = make_store(folder), make_run(folder)
        tried, found, back = mutate(store, run, asked.mutations, rng)
        ends = [
            one_training(store, folder / f"run-{n}", rng, odds=(0.02, 0.1, 0.4)[n % 3])
            for n in range(asked.runs)
        ]
    print(f"{'mutations':<44}{tried:>8,}")
    print(f"{'  found and named':<44}{found:>8,}")
    print(f"{'  fell back to the checkpoint before':<44}{back:>8,}")
    print(f"{'runs with NaN, Inf and little memory':<44}{len(ends):>8,}")
    for word in ("finished", "stopped", "failed"):
        print(f"  {word:<42}{ends.count(word):>8,}")
    print(f"{'seconds':<44}{time.monotonic() - began:>8,.0f}")
    return int(found < tried or back < tried or "failed" in ends)


if __name__ == "__main__":
    sys.exit(main())
