"""Input vectors: the sum of what is known of a token (itself, its place, its segment), normalised.

Why a sum is allowed: docs/why-add-embeddings.md, and the exact test beside it.
"""

from __future__ import annotations

from torch import Tensor, nn

from tianci.batch import Batch
from tianci.errors import UserError
from tianci.nn.dropout import dropout


class OffsetPositions(nn.Embedding):
    """Learned positions behind some rows that are never read (RoBERTa keeps them for padding)."""

    def __init__(self, count: int, width: int, offset: int):
        super().__init__(count + offset, width)
        self.num_embeddings, self.offset = count, offset  # how many can be read

    def forward(self, position: Tensor) -> Tensor:
        return super().forward(position + self.offset)


class OneSegment(nn.Embedding):
    """The one row that all tokens get, whatever their segment."""

    def __init__(self, width: int):
        super().__init__(1, width)

    def forward(self, segments: Tensor) -> Tensor:
        return self.weight[0]


def check_length(batch: Batch, limit: int) -> None:
    """Refuses texts that are longer than a model reads."""
    if batch.layout.longest > limit:
        raise UserError(
            f"a text has {batch.layout.longest} tokens, but the model reads {limit}; "
            "cut or split it"
        )


class TokenEmbedding(nn.Module):
    """Tokens alone, then dropout: where attention knows the places (T5). (T,) -> (T, W)."""

    def __init__(self, token: nn.Embedding, limit: int, dropout: float):
        super().__init__()
        self.token, self.limit, self.dropout = token, limit, dropout

    def forward(self, batch: Batch) -> Tensor:
        check_length(batch, self.limit)
        return dropout(self.token(batch.tokens), self.dropout, self.training)


class PlaceEmbedding(nn.Module):
    """norm(token + position), then dropout. (T,) -> (T, W)."""

    def __init__(
        self, token: nn.Embedding, position: nn.Embedding, norm: nn.Module, dropout: float
    ):
        super().__init__()
        self.token, self.position = token, position
        self.norm, self.dropout = norm, dropout

    def forward(self, batch: Batch) -> Tensor:
        check_length(batch, self.position.num_embeddings)
        return dropout(self.norm(self.total(batch)), self.dropout, self.training)

    def total(self, batch: Batch) -> Tensor:
        """The sum before it is normalised."""
        out: Tensor = self.token(batch.tokens) + self.position(batch.layout.position)
        return out


class SumEmbedding(PlaceEmbedding):
    """norm(token + position + segment), then dropout."""

    def __init__(
        self,
        token: nn.Embedding,
        position: nn.Embedding,
        segment: nn.Embedding,
        norm: nn.Module,
        dropout: float,
    ):
        super().__init__(token, position, norm, dropout)
        self.segment = segment

    def total(self, batch: Batch) -> Tensor:
        # No segments means all first: one row, broadcast, instead of T look-ups
        segment = self.segment.weight[0] if batch.segments is None else self.segment(batch.segments)
        return super().total(batch) + segment


class FactorisedEmbedding(SumEmbedding):
    """The sum of narrow vectors, widened by a matrix: V x E + E x W weights instead of V x W."""

    def __init__(
        self,
        token: nn.Embedding,
        position: nn.Embedding,
        segment: nn.Embedding,
        norm: nn.Module,
        dropout: float,
        width: int,
    ):
        super().__init__(token, position, segment, norm, dropout)
        self.widen = nn.Linear(token.embedding_dim, width)

    def forward(self, batch: Batch) -> Tensor:
        out: Tensor = self.widen(super().forward(batch))
        return out
