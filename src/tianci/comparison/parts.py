"""The finished parts of a comparison: each is done once, and known again after a stop.

`parts/NAME.json` holds what a part is made from, and its result when it is done. So a recipe that
has changed in the meantime is noticed instead of mixed with old results.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tianci.errors import UserError
from tianci.files import read_json, write_json


class Parts:
    """What of a comparison is done."""

    def __init__(self, folder: Path):
        self.folder = folder

    def done(self, name: str, made_from: Mapping[str, Any]) -> dict[str, Any] | None:
        """The result of a finished part; None if it is still to be done."""
        place = self._place(name)
        if not place.exists():
            return None
        record = read_json(place)
        # as JSON keeps it: tuples are lists there
        wanted = json.loads(json.dumps(made_from))
        if record["made_from"] != wanted:
            raise UserError(
                f"{place}: {name} was made with {_difference(record['made_from'], wanted)}; "
                "give another --out, or delete this one to begin anew"
            )
        result: dict[str, Any] | None = record["result"]
        return result

    def do(
        self, name: str, made_from: Mapping[str, Any], work: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        """The result of a part, from an earlier sitting or from now."""
        found = self.done(name, made_from)
        if found is not None:
            return found
        place = self._place(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        # before the work: half of a run must not be finished with other settings either
        write_json(place, {"part": name, "made_from": made_from, "result": None})
        began = time.monotonic()
        result = work()
        result = {**result, "part_seconds": round(time.monotonic() - began, 2)}
        write_json(place, {"part": name, "made_from": made_from, "result": result})
        return result

    def _place(self, name: str) -> Path:
        return self.folder / "parts" / f"{name}.json"


def _difference(old: Any, new: Any, name: str = "settings") -> str:
    """The first setting that is not as it was."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            if old.get(key) != new.get(key):
                return _difference(old.get(key), new.get(key), key)
    return (
        f"{name} = {json.dumps(old, ensure_ascii=False)}, not {json.dumps(new, ensure_ascii=False)}"
    )
