"""Which sequences of a batch are run together."""

from __future__ import annotations

from collections.abc import Sequence

FEW = 192  # fewer rows than this, and matrix products get slow: lengths may differ more then


def cut(lengths: Sequence[int], most: int, slack: float) -> list[list[int]]:
    """Numbers of sequences, longest first, in groups of at most `most` tokens (or one sequence).

    Where a group already has enough tokens, a sequence that is shorter than the longest of it by
    more than `slack` times begins a new one: engines that pad inside attention pad little then.
    """
    groups: list[list[int]] = []
    used = longest = 0
    for number in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        length = lengths[number]
        ragged = used >= FEW and longest > slack * length
        if not groups or used + length > most or ragged:
            groups.append([])
            used, longest = 0, length
        groups[-1].append(number)
        used += length
    return groups


def rounded(tokens: int) -> int:
    """A count of rows of which there are few: kernels are made anew for each one (10 to 14 ms for a
    MiniLM), and a text of any length should find them made."""
    step = 4 if tokens <= 64 else 8 if tokens <= 256 else 32
    return -(-tokens // step) * step
