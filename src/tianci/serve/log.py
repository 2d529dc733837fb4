"""The access log: one JSON line per request, without a word of what was asked or answered."""

from __future__ import annotations

import json
import sys
import time
import traceback
from typing import Any, TextIO


class AccessLog:
    """Writes to standard error unless told otherwise."""

    def __init__(self, stream: TextIO | None = None):
        self.stream = stream

    def line(self, **values: Any) -> None:
        """One event."""
        stream = self.stream or sys.stderr
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        stream.write(json.dumps({"time": stamp, **values}) + "\n")
        stream.flush()

    def failure(self, request: str, error: BaseException) -> None:
        """Where something broke; not the message, which may repeat the request's text."""
        frames = traceback.extract_tb(error.__traceback__)[-4:]
        places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames]
        self.line(event="failure", id=request, type=type(error).__name__, at=places)


class Silence(AccessLog):
    """With --quiet."""

    def line(self, **values: Any) -> None:
        pass
