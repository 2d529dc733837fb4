"""Ctrl-C and SIGTERM during training: the step is finished, or left if it is long; then all is
saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tianci.train.loop import Loop


@contextmanager
def catch(loop: Loop) -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM end the training, not the process."""
    received: list[int] = []

    def stop(number: int, _: Any) -> None:
        received.append(number)
        loop.stopping = True

    if threading.current_thread() is not threading.main_thread():
        yield received  # only the main thread may listen
        return
    old = {n: signal.signal(n, stop) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
