"""Memory that does not suffice: which errors say so, and what to tell."""

from __future__ import annotations

import gc

import torch

from tianci.errors import Failed

SAYINGS = ("can't allocate memory", "out of memory", "not enough memory")


class TooLarge(Failed):
    """Not even one sequence fits."""

    def __init__(self, tokens: int):
        super().__init__(
            f"the memory does not suffice for a single sequence of {tokens} tokens; use shorter "
            "ones (--length), a smaller model, or a machine with more memory"
        )


def ran_out(error: BaseException) -> bool:
    """Whether an error says that memory has run out, in the words of Python, torch or CUDA."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error) for word in SAYINGS)


def let_go() -> None:
    """Gives back what a failed attempt has left."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
