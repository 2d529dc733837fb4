"""What a directory should hold: every file with its size and sha256, in a file that seals itself.

`manifest.json` is written last. Its own checksum is over its exact bytes (with zeros in the place
of the checksum), so that a damaged manifest is noticed like any other damaged file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tianci.errors import UserError
from tianci.files import read_json, write_file

MANIFEST = "manifest.json"
BLANK = "0" * 64  # stands in the place of a checksum while it is computed


@dataclass(frozen=True)
class Fault:
    """What is wrong with one file."""

    file: str
    fault: str

    def __str__(self) -> str:
        return f"{self.file} {self.fault}"


def checksum(path: Path) -> str:
    """The sha256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---------------------------------------------------------------- JSON that seals itself


def write_sealed(path: Path, value: Mapping[str, Any]) -> None:
    """Writes readable JSON whose last entry is the checksum of the file."""
    text = json.dumps({**value, "sha256": BLANK}, indent=2, ensure_ascii=False) + "\n"
    seal = hashlib.sha256(text.encode()).hexdigest()
    # the last of them: another entry might be 64 zeros as well
    before, _, after = text.rpartition(BLANK)
    write_file(path, before + seal + after)


def read_sealed(path: Path) -> dict[str, Any]:
    """The JSON object in a file, if the file is as it was written; UserError otherwise."""
    value = read_json(path)
    seal = value.pop("sha256", None)
    data = path.read_bytes()
    if not isinstance(seal, str) or not seal.isascii() or not _is_seal_of(seal.encode(), data):
        raise UserError(f"{path} is damaged: it is not as it was written")
    return value


def _is_seal_of(seal: bytes, data: bytes) -> bool:
    if len(seal) != len(BLANK):  # an empty one above all
        return False
    before, found, after = data.rpartition(seal)
    plain = before + BLANK.encode() + after
    return bool(found) and hashlib.sha256(plain).hexdigest().encode() == seal


# ---------------------------------------------------------------- directories


def seal(folder: Path, names: list[str] | None = None) -> None:
    """Writes the manifest of a directory.

    With names it speaks of these files only, and others may lie beside them: a run keeps its model
    at its top, between logs and pictures.
    """
    files = {
        name: {"bytes": (folder / name).stat().st_size, "sha256": checksum(folder / name)}
        for name in (sorted(inside(folder)) if names is None else sorted(names))
    }
    write_sealed(folder / MANIFEST, {"files": files, "alone": names is None})


def inside(folder: Path) -> Iterator[str]:
    """The files of a directory, without its manifest and hidden ones (`.DS_Store`, `.nfs...`)."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(place, name).relative_to(folder)
            if not name.startswith(".") and path != Path(MANIFEST):
                yield path.as_posix()


def has_manifest(folder: Path) -> bool:
    return (folder / MANIFEST).exists()


def listed(folder: Path) -> tuple[dict[str, Any], bool]:
    """What the manifest says of each file, and whether other files may not lie beside them."""
    path = folder / MANIFEST
    told = read_json(path)
    if told and all(isinstance(value, str) for value in told.values()) and "sha256" not in told:
        # as versions before 0.2 wrote it: names and checksums, without a seal
        return {name: {"sha256": value} for name, value in told.items()}, False
    told = read_sealed(path)
    return told["files"], bool(told["alone"])


def faults(folder: Path, content: bool = True) -> list[Fault]:
    """What is not as the manifest says; without `content` judged by the sizes alone."""
    if not has_manifest(folder):
        return [Fault(MANIFEST, "is missing")]
    try:
        files, alone = listed(folder)
    except UserError:
        return [Fault(MANIFEST, "is damaged")]
    found = [Fault(name, wrong) for name, about in files.items()
             if (wrong := fault_of(folder / name, about, content))]  # fmt: skip
    if alone:
        found += [
            Fault(n, "does not belong here") for n in sorted(inside(folder)) if n not in files
        ]
    return found


def fault_of(path: Path, about: Mapping[str, Any], content: bool = True) -> str | None:
    """What is wrong with one file, by what was written down about it."""
    if not path.is_file():
        return "is missing"
    try:
        size = path.stat().st_size
        if size != about.get("bytes", size):
            return f"has {size:,} bytes instead of {about['bytes']:,}"
        if content and checksum(path) != about["sha256"]:
            return "has changed: its sha256 is another"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return None


def check_weights(folder: Path) -> None:
    """Refuses weights that are not as long as they were written.

    What loading can afford: checksums of everything would read a large model twice (`tianci verify`
    and going on after a stop do it). Small text files may be edited by their owner.
    """
    if not has_manifest(folder):
        return
    advice = f"tianci verify {folder} tells more; if it was changed on purpose, delete {MANIFEST}"
    try:
        files, _ = listed(folder)
    except UserError:
        raise UserError(f"{folder / MANIFEST} is damaged; {advice}") from None
    for name, about in files.items():
        weights = name.endswith(".safetensors") and "/" not in name
        if not weights or not (folder / name).is_file():  # missing ones are missed by the reader
            continue
        if wrong := fault_of(folder / name, about, content=False):
            raise UserError(f"{folder / name} {wrong}; {advice}")
