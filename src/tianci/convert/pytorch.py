"""Old `pytorch_model.bin` checkpoints: pickles, read by torch's restricted unpickler only."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from tianci.errors import UserError
from tianci.public_format import shard_names


def read_bin(directory: Path) -> dict[str, Tensor]:
    """All tensors of pytorch_model.bin or of its shards."""
    index = directory / "pytorch_model.bin.index.json"
    names = ["pytorch_model.bin"]
    if index.exists():
        names = shard_names(index)
    tensors: dict[str, Tensor] = {}
    for name in names:
        file = directory / name
        try:
            # weights_only: tensors and plain containers, no code from the file is ever run
            content = torch.load(file, map_location="cpu", weights_only=True)
        except FileNotFoundError:
            raise UserError(f"{file} is missing, but {index.name} names it") from None
        except Exception as error:  # whatever the bytes of a broken pickle bring about
            reason = (str(error).splitlines() or ["it is empty"])[0]
            raise UserError(f"{file} is not a file of plain tensors: {reason}") from error
        if not isinstance(content, dict) or not all(
            isinstance(t, Tensor) for t in content.values()
        ):
            raise UserError(f"{file} holds something else than named tensors")
        tensors.update(content)
    return tensors
