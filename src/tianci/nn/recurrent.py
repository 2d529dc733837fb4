"""Recurrent parts over packed tokens."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from tianci.batch import Layout


class PackedLSTM(nn.Module):
    """A bidirectional LSTM: (T, W) -> (T, 2 x hidden). The order in the batch does not matter."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.lstm = nn.LSTM(width, hidden, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        # torch packs by time step, we by sequence; the way between them goes through the grid
        packed: PackedSequence = pack_padded_sequence(
            layout.pad(x), list(layout.lengths), batch_first=True, enforce_sorted=False
        )
        grid, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return layout.pack(grid)
