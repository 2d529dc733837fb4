"""Something made once for each number of threads that torch may use where it is asked for.

A server gives a batch alone all threads, and batches side by side a share each (serve/lanes.py);
runtimes that have threads of their own fix their number when they are made.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

import torch

T = TypeVar("T")


class ByThreads(Generic[T]):
    """`make(threads)`, kept."""

    def __init__(self, make: Callable[[int], T]):
        self._make, self._made, self._making = make, dict[int, T](), Lock()

    def here(self) -> T:
        """The one for the thread that asks."""
        threads = torch.get_num_threads()
        if threads not in self._made:
            with self._making:
                if threads not in self._made:
                    self._made[threads] = self._make(threads)
        return self._made[threads]
