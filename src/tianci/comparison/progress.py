"""One bar for all parts of a comparison, in estimated seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm


class Progress:
    """Moves with the clock inside a part, and to its end when the part is done."""

    def __init__(self, total: float, quiet: bool):
        self.bar = tqdm(
            total=max(1.0, total), disable=quiet, file=sys.stderr,
            bar_format="{percentage:3.0f}%|{bar}| {elapsed}<{remaining} {desc}",
        )  # fmt: skip

    @contextmanager
    def part(self, name: str, seconds: float) -> Iterator[None]:
        """While the block runs, the bar goes on towards the part's estimated end."""
        start, began, over = self.bar.n, time.monotonic(), threading.Event()
        self.bar.set_description_str(name)

        def tick() -> None:
            while not over.wait(1.0):
                self.bar.n = start + min(0.98 * seconds, time.monotonic() - began)
                self.bar.refresh()

        clock = threading.Thread(target=tick, daemon=True)
        clock.start()
        try:
            yield
        finally:
            over.set()
            clock.join()
        self.bar.n = start + seconds
        self.bar.refresh()

    def close(self) -> None:
        self.bar.set_description_str("")
        self.bar.close()
