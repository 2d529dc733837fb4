"""Which libraries are there, which are too old, and how to get what is missing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version

# what each extra is for; its libraries stand in the package's own metadata
PURPOSE = {
    "serve": "tianci serve and tianci page",
    "export": "tianci export (ONNX)",
    "zh": "Chinese words and traditional characters",
    "data": "Parquet and .zst files",
    "plot": "curve.png beside the report",
    "openvino": "a faster engine on Intel processors",
}
_REQUIREMENT = re.compile(r"^([\w.-]+)(?:\[[^]]*\])?\s*([^;]*)(?:;\s*(.*))?$")


@dataclass(frozen=True)
class Library:
    """One requirement and what is there."""

    name: str
    found: str | None  # version
    floor: str  # "" where any version will do
    extra: str = ""

    @property
    def too_old(self) -> bool:
        return bool(self.found and self.floor and numbers(self.found) < numbers(self.floor))


def numbers(text: str) -> tuple[int, ...]:
    """A version as numbers: 2.13.0+cpu is (2, 13, 0)."""
    plain = re.match(r"[\d.]*", text)
    return tuple(int(part) for part in (plain[0] if plain else "").split(".") if part)


def libraries(lines: list[str] | None = None) -> list[Library]:
    """What tianci needs and what its extras add, as its own metadata say."""
    if lines is None:
        try:
            lines = requires("tianci") or []
        except PackageNotFoundError:
            lines = []  # run from a source tree that was never installed
    found = []
    for line in lines:
        parts = _REQUIREMENT.match(line.strip())
        if parts is None or parts[1] == "tianci":
            continue
        extra = re.search(r"extra\s*==\s*['\"](\w+)['\"]", parts[3] or "")
        if extra and extra[1] not in PURPOSE:
            continue  # demo, dev, all: made of the others
        floor = re.search(r"[>=]=\s*([\d.]+)", parts[2])
        found.append(Library(parts[1], installed(parts[1]), floor[1] if floor else "",
                             extra[1] if extra else ""))  # fmt: skip
    return found


def installed(name: str) -> str | None:
    """The version of a library, None where it is missing."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
