"""Which engine is fastest for a model of these sizes on this machine: measured once, remembered.

What is measured is two blocks of the model's sizes with random weights: making them takes a moment
even in engines that compile, and a deeper model only repeats them.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tianci.batch import Batch
from tianci.engine.attached import Engine
from tianci.errors import UserError
from tianci.files import write_json
from tianci.models import bert
from tianci.models.base import Encoder

CLEARLY = 1.15  # times faster than torch, or torch it is
ROUNDS = 5
CASES = {
    "16 tokens": (16,),
    "128 tokens": (128,),
    "ragged": (96, 61, 47, 40, 33, 29, 24, 20, 17, 9),
}


@dataclass(frozen=True)
class Sizes:
    """What decides how long a block takes."""

    width: int
    heads: int
    hidden: int
    activation: str = "gelu"

    @classmethod
    def of(cls, model: Encoder) -> Sizes:
        c = model.config
        return cls(c.width, c.heads, c.hidden, c.activation)


@dataclass(frozen=True)
class Row:
    """What measurement says of one engine."""

    engine: str
    int8: bool
    milliseconds: dict[str, float]  # per case; empty where it does not run here
    speed: float  # times as fast as torch, the mean over the cases (geometric)
    note: str  # why it does not run, or how far it is from the modules


def measure(sizes: Sizes | Encoder, int8: bool = False, rounds: int = ROUNDS) -> list[Row]:
    """One row per engine; torch first."""
    from tianci.engine import KINDS, make

    shape = Sizes.of(sizes) if isinstance(sizes, Encoder) else sizes
    model = _two_blocks(shape)
    batches = {name: _batch(lengths) for name, lengths in CASES.items()}
    engines: dict[str, Engine] = {}
    notes: dict[str, str] = {}
    for kind in KINDS:
        try:
            engine = make(model, kind, int8)
            notes[kind] = _difference(engine, batches["ragged"])
            engines[kind] = engine
        except UserError as error:
            notes[kind] = str(error)
        except Exception as error:  # a runtime that cannot run here must not end the program
            notes[kind] = f"does not run here: {type(error).__name__}: {error}".splitlines()[0]
    calls: dict[tuple[str, str], Callable[[], Any]] = {
        (kind, case): (lambda e=engine, b=batch: e.last(b))  # type: ignore[misc]
        for kind, engine in engines.items()
        for case, batch in batches.items()
    }
    # the shortest: whatever else runs on the machine can only make it longer
    times = {key: min(found) for key, found in _interleaved(calls, rounds).items()}
    rows = []
    for kind in KINDS:
        own = {case: times[kind, case] * 1e3 for case in CASES} if kind in engines else {}
        base = {case: times["torch", case] * 1e3 for case in CASES} if "torch" in engines else own
        ratios = [math.log(base[case] / own[case]) for case in own]
        speed = math.exp(sum(ratios) / len(ratios)) if ratios else 0.0
        rows.append(Row(kind, int8, own, speed, notes[kind]))
    return rows


def choose(rows: Sequence[Row]) -> str:
    """The fastest, if it is clearly faster than torch."""
    best = max(rows, key=lambda row: row.speed)
    torch_runs = any(row.engine == "torch" and row.milliseconds for row in rows)
    return best.engine if best.speed >= CLEARLY or not torch_runs else "torch"


def chosen(model: Encoder, int8: bool = False) -> str:
    """The remembered choice for a model; measured now if there is none."""
    sizes = Sizes.of(model)
    about = {**machine(), "sizes": asdict(sizes), "int8": int8}
    key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]
    known = remembered()
    found = known.get(key, {}).get("engine")
    if isinstance(found, str):
        return found
    rows = measure(sizes, int8)
    winner = choose(rows)
    known[key] = {"engine": winner, **about, "rows": [asdict(row) for row in rows]}
    try:
        memory().parent.mkdir(parents=True, exist_ok=True)
        write_json(memory(), known)
    except OSError:
        pass  # a home that cannot be written: measured again next time
    return winner


def memory() -> Path:
    """The file with all choices."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "tianci" / "engines.json"


def remembered() -> dict[str, Any]:
    """All choices so far; none where the file is missing or not ours."""
    try:
        known = json.loads(memory().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    fine = isinstance(known, dict) and all(isinstance(one, dict) for one in known.values())
    return known if fine else {}


def machine() -> dict[str, Any]:
    """What a choice depends on besides the model: processor, threads, versions."""
    told: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return {
        "machine": [platform.machine(), torch.backends.cpu.get_cpu_capability()],
        "processor": sorted(str(name) for name, has in told.items() if has is True),
        "name": str(told.get("cpu_name", "")),
        "threads": torch.get_num_threads(),
        "versions": {name: _version(name) for name in ("torch", "openvino", "onnxruntime")},
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _two_blocks(sizes: Sizes) -> Encoder:
    config = bert.Config(vocabulary=1000, layers=2, positions=512, **asdict(sizes))
    return bert.build(config).eval()


def _batch(lengths: Sequence[int]) -> Batch:
    dice = np.random.default_rng(0)
    return Batch.of([dice.integers(0, 1000, n).tolist() for n in lengths])


def _difference(engine: Engine, batch: Batch) -> str:
    """How far it is from the modules; a UserError above what is allowed."""
    from tianci.engine.quality import TOLERANCE

    with torch.inference_mode():
        ours, said = engine.model.run_modules(batch).last, engine.last(batch)
        if engine.int8:
            cosine = float(torch.cosine_similarity(ours, said).mean())
            return f"cosine {cosine:.4f}"
        gap = float((ours - said).abs().max())
    if not gap <= TOLERANCE:
        raise UserError(f"differs by {gap:.1e} from the modules; not used")
    return f"largest difference {gap:.1e}"


def _interleaved(
    calls: dict[tuple[str, str], Callable[[], Any]], rounds: int
) -> dict[tuple[str, str], list[float]]:
    """Times of each call, in turn, so that noise of the machine hits all alike."""
    times: dict[tuple[str, str], list[float]] = {key: [] for key in calls}
    for number in range(rounds + 1):
        for key, call in calls.items():
            began = time.perf_counter()
            call()
            if number:  # the first round warms up
                times[key].append(time.perf_counter() - began)
    return times
