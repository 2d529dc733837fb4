"""A frozen body that remembers what it said: features are computed once, then only the head
learns."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tianci.batch import Batch
from tianci.models.base import Model, States
from tianci.nn.past import Following, Recording

MEMORY = 2 << 30  # bytes; what does not fit is computed again each time


class Remembering(Model):
    """Answers for a frozen model; a sequence that comes again is looked up."""

    def __init__(self, body: Model, all_layers: bool):
        super().__init__()
        # a list hides it from `parameters()`: it does not learn and is not saved twice
        self._body = [body.eval().requires_grad_(False)]
        self.config, self.all_layers = body.config, all_layers
        self._known: dict[bytes, Tensor] = {}  # (layers, length, W)
        self._bytes = 0

    @property
    def body(self) -> Model:
        return self._body[0]

    @torch.no_grad()
    def forward(self, batch: Batch) -> States:
        writing = isinstance(batch.layout, Recording | Following)
        if writing or batch.decoder is not None:  # what is said depends on more than one text
            return self.body.eval().forward(batch)
        sizes = list(batch.layout.lengths)
        pieces = [t.cpu().numpy().tobytes() for t in torch.split(batch.tokens, sizes)]
        if batch.segments is not None:
            parts = torch.split(batch.segments, sizes)
            pieces = [a + b.cpu().numpy().tobytes() for a, b in zip(pieces, parts, strict=True)]
        if batch.layout.prefix is not None:
            pieces = [a + n.to_bytes(4) for a, n in zip(pieces, batch.layout.prefix, strict=True)]
        missing = [n for n, key in enumerate(pieces) if key not in self._known]
        fresh = dict(zip(missing, self._compute(batch, missing), strict=True))
        for n, states in fresh.items():
            if self._bytes < MEMORY:
                self._known[pieces[n]] = states
                self._bytes += states.numel() * states.element_size()
        found = [fresh[n] if n in fresh else self._known[key] for n, key in enumerate(pieces)]
        joined = torch.cat(found, dim=1)
        return States(list(joined.unbind(0)), batch.layout)

    def _compute(self, batch: Batch, numbers: Sequence[int]) -> list[Tensor]:
        """The states of some sequences of a batch."""
        if not numbers:
            return []
        sizes = list(batch.layout.lengths)
        tokens = torch.split(batch.tokens, sizes)
        segments = None if batch.segments is None else torch.split(batch.segments, sizes)
        part = Batch(
            torch.cat([tokens[n] for n in numbers]),
            batch.layout.only(numbers),
            None if segments is None else torch.cat([segments[n] for n in numbers]),
        )
        layers = self.body.eval()(part).layers
        kept = torch.stack(list(layers) if self.all_layers else [layers[-1]])
        return [x.clone() for x in torch.split(kept, [sizes[n] for n in numbers], dim=1)]

    def depth(self) -> list[torch.nn.Module]:
        return []

    def token_table(self) -> Tensor:
        return self.body.token_table()
