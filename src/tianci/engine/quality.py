"""Whether an engine says what the modules say: float32 nearly exactly, int8 by what matters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tianci.batch import Batch
from tianci.engine.attached import Engine
from tianci.errors import UserError
from tianci.export.sentences import probes
from tianci.models.base import Model

if TYPE_CHECKING:
    from tianci.checkpoint import Checkpoint

TOLERANCE = 1e-4  # of float32 states, whose size is about 1; seen are 3e-6 to 2e-5
POINTS = 0.005  # that a task's score may lose in int8
COSINE = 0.997  # of int8 vectors to float32 ones, the mean over real texts


def check_exact(engine: Engine) -> float:
    """The largest difference to the modules on a probe; refuses more than `TOLERANCE`."""
    batch = probe_batch(engine.model.config.vocabulary, engine.model.config.positions)
    # a text alone may have a way of its own through an engine
    alone = torch.split(batch.tokens, list(batch.layout.lengths))[-1].tolist()
    with torch.inference_mode():
        ours = engine.model.run_modules(batch).last
        single = engine.model.run_modules(one := Batch.of([alone])).last
        gaps = (engine.last(batch) - ours).abs().max(), (engine.last(one) - single).abs().max()
        gap = float(torch.stack(gaps).max())
    if not gap <= TOLERANCE * max(1.0, float(ours.abs().max())):  # also when it is not a number
        raise UserError(
            f"the engine {engine.name} differs by {gap:.1e} on this model, {TOLERANCE:.0e} is "
            "allowed; use --engine torch"
        )
    return gap


def check_int8(
    engine: Engine, saved: Checkpoint | Model, texts: Sequence[str] = ()
) -> dict[str, Any]:
    """How much int8 keeps on real sentences; refuses less than is asked, with the figures."""
    rows = _rows(saved, texts)
    found = kept(engine, rows)
    if not found["cosine"] >= COSINE:
        raise UserError(
            f"int8 keeps too little of this model: the mean cosine of its vectors to those of "
            f"float32 is {found['cosine']:.4f} on {found['texts']} texts, {COSINE} is asked; run "
            "it without --int8"
        )
    return found


def check_score(name: str, exact: float, small: float) -> dict[str, float]:
    """The float32 score by its name; refuses int8 where it loses more than `POINTS`."""
    if not exact - small <= POINTS:
        raise UserError(
            f"int8 loses too much on these rows: {name} {small:.4f}, in float32 {exact:.4f}; "
            f"{100 * POINTS:g} points are allowed; run it without --int8"
        )
    return {name: exact}


def kept(engine: Engine, rows: Sequence[tuple[list[int], list[int]]]) -> dict[str, Any]:
    """The cosine of mean vectors, over all rows: `cosine` (mean), `lowest`, `texts`."""
    batch = Batch.of([ids for ids, _ in rows], [segments for _, segments in rows])
    with torch.inference_mode():
        ours, said = (
            _vectors(last, batch) for last in (engine.model.run_modules(batch).last,
                                               engine.last(batch))
        )  # fmt: skip
        cosine = F.cosine_similarity(ours, said)
    return {
        "cosine": float(cosine.mean()),
        "lowest": float(cosine.min()),
        "texts": len(rows),
    }


def probe_batch(vocabulary: int, positions: int, count: int = 12, seed: int = 0) -> Batch:
    """Random tokens in sequences of very different lengths."""
    dice = np.random.default_rng(seed)  # torch's would need all of torch (cli/quick_torch.py)
    lengths = [min(positions, n) for n in (1, 2, 5, 9, 16, 17, 23, 31, 40, 64, 77, 130)[:count]]
    return Batch.of([dice.integers(0, vocabulary, n).tolist() for n in lengths])


def _vectors(last: Tensor, batch: Batch) -> Tensor:
    return torch.stack([part.mean(0) for part in torch.split(last, list(batch.layout.lengths))])


def _rows(saved: Checkpoint | Model, texts: Sequence[str]) -> Sequence[tuple[list[int], list[int]]]:
    model = saved if isinstance(saved, Model) else saved.model
    tokenizer = None if isinstance(saved, Model) else saved.tokenizer
    if tokenizer is None:  # tokens without meaning are a harder test than sentences
        batch = probe_batch(model.config.vocabulary, model.config.positions)
        ids = torch.split(batch.tokens, list(batch.layout.lengths))
        return [(one.tolist(), [0] * len(one)) for one in ids]
    return probes(tokenizer, int(model.config.positions), texts)
