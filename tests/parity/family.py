"""One helper for all families: loud weights, ragged batches, and a comparison that can fail."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from tests.conftest import PARITY
from tianci.batch import Batch, Layout

ATOL = 1e-5


def loud(module: nn.Module, seed: int) -> None:
    """Redraws all weights so that every part matters: with N(0, 0.02) a missing 1/sqrt(D) goes
    unseen."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in module.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype) * 0.3
        is_gain = parameter.dim() == 1 and name.endswith("weight")
        parameter.data = noise + 1.0 if is_gain else noise


def ragged(seed: int, vocabulary: int, longest: int, count: int = 7) -> Batch:
    """Random sequences of different lengths with two segments; one token, and the longest, among
    them."""
    r = np.random.default_rng(seed)
    lengths = [1, longest, longest, *r.integers(1, longest + 1, count - 3).tolist()]
    # from 1: transformers keeps the gradient of the padding row (0) at zero, we have no padding row
    ids = [r.integers(1, vocabulary, n).tolist() for n in lengths]
    segments = [sorted(r.integers(0, 2, n).tolist()) for n in lengths]
    return Batch.of(ids, segments)


def padded_inputs(batch: Batch) -> dict[str, Tensor]:
    """The same batch as transformers wants it."""
    layout = batch.layout
    assert batch.segments is not None
    return {
        "input_ids": layout.pad(batch.tokens),
        "token_type_ids": layout.pad(batch.segments),
        "attention_mask": layout.mask.long(),
    }


def difference(ours: Tensor, theirs: Tensor) -> float:
    """The largest absolute difference; shapes must agree."""
    assert ours.shape == theirs.shape, f"{tuple(ours.shape)} against {tuple(theirs.shape)}"
    return (ours - theirs).abs().max().item() if ours.numel() else 0.0


def same(
    family: str, what: str, source: str, ours: Tensor, theirs: Tensor, atol: float = ATOL
) -> None:
    """Records the difference for the table and fails when it is too large."""
    gap = difference(ours.detach(), theirs.detach())
    PARITY.append((family, what, source, gap))
    assert gap <= atol, (
        f"{family} {what} against {source}: differs by {gap:.2e}, allowed {atol:.0e}"
    )


def same_layers(
    family: str, source: str, ours: list[Tensor], theirs: list[Tensor], layout: Layout
) -> None:
    """All layers, on the real tokens."""
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        same(family, f"{len(ours) - 1} layers, hidden states", source, mine, layout.pack(other))
