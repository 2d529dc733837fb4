"""First weights."""

from __future__ import annotations

from torch import nn


def normal(module: nn.Module, std: float) -> None:
    """BERT's choice: matrices and tables from N(0, std), biases 0, norms 1 and 0."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=std)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)
