"""The workers of one server: which of them have loaded, in memory that all of them share.

A client is answered by any of them, so none may call itself ready while another one would say 503.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from dataclasses import dataclass, field


@dataclass
class Crew:
    """What one worker knows of all."""

    loaded: MutableSequence[int] = field(default_factory=lambda: [0])  # 1 from then on, by place
    place: int = 0
    late: bool = False  # it replaces a worker that died: it loads before it takes connections

    def tell(self) -> None:
        """Says that this worker has loaded."""
        self.loaded[self.place] = 1

    @property
    def complete(self) -> bool:
        return all(self.loaded)
