"""Room on the disk: one sentence when it ends, and a look before much is written."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tianci.errors import Failed, UserError

REASONS = {
    errno.ENOSPC: "no space is left on the disk",
    errno.EDQUOT: "the quota of this account is used up",
    errno.EFBIG: "files of this size are not allowed here (ulimit -f)",
    errno.EROFS: "the disk is read-only",
    errno.EIO: "the disk reports an error",
}
INSIDE = re.compile(r"\(os error (\d+)\)")  # how errors of libraries written in Rust end


class NoRoom(Failed):
    """Nothing could be written; what was there before is still there."""


def free_bytes(path: Path) -> int | None:
    """What is free on the disk of a path that may not exist yet; None where nobody can tell."""
    place = next((one for one in (path, *path.absolute().parents) if one.exists()), path)
    try:
        found = os.statvfs(place)
    except (OSError, AttributeError):  # Windows has no statvfs
        return None
    return found.f_bavail * found.f_frsize


def reason_of(error: BaseException) -> str | None:
    """Why the disk did not take something; None when the error is about something else."""
    if isinstance(error, NoRoom):
        return None  # said already, by what was written inside
    number = error.errno if isinstance(error, OSError) else None
    if number is None and (found := INSIDE.search(str(error))):
        number = int(found[1])
    return REASONS.get(number or 0)


def sentence(path: Path, reason: str, needed: int, least: bool = False) -> str:
    """Path, bytes, and what to do."""
    free = free_bytes(path)
    have = "" if free is None else f", {free:,} are free"
    most = "at least " if least else ""
    return (
        f"cannot write {path}: {reason}; {most}{needed:,} bytes were needed{have}; what was there "
        "before is still whole; make room, or give another directory, and start again"
    )


@contextmanager
def explained(path: Path, needed: int, least: bool = False) -> Iterator[None]:
    """Errors of the disk inside the block become one sentence with path and bytes."""
    try:
        yield
    except Exception as error:
        reason = reason_of(error)
        if reason is None:
            raise
        raise NoRoom(sentence(path, reason, needed, least)) from error


@contextmanager
def discarded(path: Path) -> Iterator[None]:
    """A file that could not be written whole is not left."""
    try:
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def refusal(path: Path, error: OSError, needed: int) -> Exception:
    """What to raise when nothing could be begun: a full disk failed, another place was wrong."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoRoom(sentence(path, REASONS[error.errno], needed))
    return UserError(f"cannot write to {path}: {error.strerror}")


def check_room(path: Path, needed: int) -> None:
    """Refuses to begin what cannot be finished."""
    free = free_bytes(path)
    if free is not None and free < needed:
        raise NoRoom(sentence(path, REASONS[errno.ENOSPC], needed))


def size_of(folder: Path) -> int:
    """The bytes of all files below a directory."""
    return sum(
        os.path.getsize(os.path.join(place, name))
        for place, _, names in os.walk(folder)
        for name in names
    )


def shortage(path: Path, needed: int, what: str) -> str | None:
    """A warning before a long work whose results will not fit; None when they do."""
    free = free_bytes(path)
    if free is None or free >= needed:
        return None
    return f"{what} need about {needed:,} bytes, but on the disk of {path} only {free:,} are free"
