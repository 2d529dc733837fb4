"""The record of a run: `log.jsonl`, appended as it goes, and the bar people look at."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tianci.files import write_file
from tianci.room import explained


class Journal:
    """Appends one JSON object per line; a resumed run first drops what came after its
    checkpoint."""

    def __init__(self, path: Path, step: int = 0):
        self.path = path
        self.kept: list[dict[str, Any]] = []  # of earlier sittings
        path.parent.mkdir(parents=True, exist_ok=True)
        self._drop_after(step)
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115  (open as long as the run)

    def back_to(self, step: int) -> None:
        """Forgets what came after a step to which the run has returned."""
        self._file.close()
        self._drop_after(step)
        self._file = open(self.path, "a", encoding="utf-8")  # noqa: SIM115

    def _drop_after(self, step: int) -> None:
        if self.path.exists():
            self.kept = before(read(self.path), step)
            text = "".join(json.dumps(e, ensure_ascii=False) + "\n" for e in self.kept)
            write_file(self.path, text)

    def write(self, event: str, **values: Any) -> None:
        line = json.dumps({"event": event, **values}, ensure_ascii=False) + "\n"
        with explained(self.path, len(line.encode())):
            self._file.write(line)
            self._file.flush()

    def sync(self) -> None:
        """Forces what was written to the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def before(entries: Sequence[dict[str, Any]], step: int) -> list[dict[str, Any]]:
    """What belongs to the checkpoint of a step; an end that was not the end does not."""
    return [e for e in entries if e.get("step", 0) <= step and e.get("event") != "end"]


def line_due(window: Sequence[Any], last: float, every: int) -> bool:
    """Whether the steps since the last line should become one: so many, or those of a second."""
    if every:
        return len(window) >= every
    return time.monotonic() - last >= 1.0 or len(window) >= 100


def read(path: Path) -> list[dict[str, Any]]:
    """The entries of a journal; a last line cut off by a kill is left out."""
    entries: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            entries.append(entry)
    return entries


def describe(parts: Mapping[str, Mapping[str, float]]) -> str:
    """Held-out figures in one line."""
    return ", ".join(
        f"{name}: loss {v['loss']:.3f}, accuracy {v['accuracy']:.1%}" for name, v in parts.items()
    )
