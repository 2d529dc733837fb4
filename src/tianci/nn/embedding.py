"""Input vectors: the sum of token, segment and position, normalised.

Why a sum is allowed: docs/why-add-embeddings.md, and the exact test beside it.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from tianci.batch import Batch
from tianci.errors import UserError


class SumEmbedding(nn.Module):
    """norm(token + segment + position), then dropout. (T,) -> (T, W)."""

    def __init__(
        self,
        token: nn.Embedding,
        position: nn.Embedding,
        segment: nn.Embedding,
        norm: nn.Module,
        dropout: float,
    ):
        super().__init__()
        self.token, self.position, self.segment = token, position, segment
        self.norm, self.dropout = norm, dropout

    def forward(self, batch: Batch) -> Tensor:
        limit = self.position.num_embeddings
        if batch.layout.longest > limit:
            raise UserError(
                f"a text has {batch.layout.longest} tokens, but the model reads {limit}; "
                "cut or split it"
            )
        # No segments means all first: one row, broadcast, instead of T look-ups
        segment = self.segment.weight[0] if batch.segments is None else self.segment(batch.segments)
        x = self.token(batch.tokens) + self.position(batch.layout.position) + segment
        return F.dropout(self.norm(x), self.dropout, self.training)
