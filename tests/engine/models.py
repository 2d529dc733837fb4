"""Small models of all families that engines run, and what they say in company and alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.parity.family import loud
from tianci import checkpoint
from tianci.batch import Batch
from tianci.models import family
from tianci.models.base import Encoder

FAMILIES = ("bert", "roberta", "albert", "distilbert")


def made(kind: str, quiet: bool = False, **sizes: Any) -> Encoder:
    """A loud model, or one with weights as they are drawn for training."""
    known = {"vocabulary": 60, "width": 64, "layers": 3, "heads": 4, "hidden": 128}
    config = family(kind).Config(**known, positions=48, **sizes)
    torch.manual_seed(0)
    model = checkpoint.create(kind, config).model
    if not quiet:
        loud(model, 1)
    assert isinstance(model, Encoder)
    return model.eval()


@torch.inference_mode()
def alone(model: Encoder, batch: Batch) -> Tensor:
    """(T, W): each sequence of a batch run by itself."""
    assert batch.segments is not None
    lengths = list(batch.layout.lengths)
    pairs = zip(batch.tokens.split(lengths), batch.segments.split(lengths), strict=True)
    return torch.cat([model(Batch.of([a.tolist()], [b.tolist()])).last for a, b in pairs])
