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
            isinstance(name, str) and isinstance(t, Tensor) for name, t in content.items()
        ):
            raise UserError(f"{file} holds something else than named tensors")
        for name, tensor in content.items():
            if not _plain(tensor):
                raise UserError(
                    f"{file}: {name} is no plain tensor of numbers (sparse, quantized, complex, or "
                    "larger than what the file holds); save the model again with dense weights"
                )
        tensors.update(content)
    return tensors


def _plain(tensor: Tensor) -> bool:
    """Whether all of it stands in the file, number by number."""
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        return False
    if tensor.is_quantized or tensor.is_complex():
        return False
    # a few bytes may be told to be a tensor of any size, the same numbers again and again
    return tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()
