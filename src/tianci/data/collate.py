"""Which sequences go into a batch together."""

from __future__ import annotations

from collections.abc import Sequence


def by_budget(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Batches of sequence numbers, longest first, of at most `budget` tokens (or one sequence).

    Neighbours in length share a batch, so that attention finds long runs of equal lengths.
    """
    batches: list[list[int]] = []
    used = budget
    for number in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if not batches or used + lengths[number] > budget:
            batches.append([])
            used = 0
        batches[-1].append(number)
        used += lengths[number]
    return batches
