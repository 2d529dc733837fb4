"""One writer per directory. The system keeps the lock, and frees it however its holder ends."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tianci.errors import UserError

try:
    import fcntl
except ImportError:  # Windows: two writers are not kept apart there
    fcntl = None  # type: ignore[assignment]

_held: set[Path] = set()  # by this process


@contextmanager
def claim(path: str | Path) -> Iterator[None]:
    """Nobody else writes this directory, or below it, inside the block; raises if somebody does.

    The lock is a file beside the directory, because directories are replaced as a whole.
    """
    target = Path(path).resolve()
    if fcntl is None or any(place in _held for place in (target, *target.parents)):
        yield
        return
    made = _make_parents(target)
    lock = target.parent / f".{target.name}.lock"
    handle = _lock(lock, path)
    _held.add(target)
    try:
        yield
    finally:
        _held.discard(target)
        if handle is not None:
            with suppress(OSError):
                lock.unlink()  # still locked: whoever opened it sees that it is not there any more
            os.close(handle)
        for folder in made:
            with suppress(OSError):
                folder.rmdir()  # only if nothing was written after all


def _make_parents(target: Path) -> list[Path]:
    """Makes the folders above; those that were not there, innermost first."""
    missing = [folder for folder in target.parents if not folder.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {target}: {error.strerror}") from error
    return missing


def _lock(lock: Path, path: str | Path) -> int | None:
    """The open, locked file; None where the file system has no locks."""
    while True:
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise UserError(f"cannot write to {path}: {error.strerror}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = _holder(handle)
            os.close(handle)
            raise UserError(
                f"{path} is being written by another process"
                + (f" (number {who})" if who else "")
                + "; wait until it has ended, or give another directory"
            ) from None
        except OSError:
            os.close(handle)
            return None
        if _same(handle, lock):
            with suppress(OSError):  # a full disk must not stop what may need no room
                os.ftruncate(handle, 0)
                os.write(handle, f"{os.getpid()}\n".encode())
            return handle
        os.close(handle)  # its holder removed it between our opening and our locking


def _holder(handle: int) -> str:
    """The number in the file; a holder that has just locked it may not have written it yet."""
    for _ in range(50):
        who = os.pread(handle, 20, 0).decode(errors="replace").strip()
        if who.isdigit():
            return who
        time.sleep(0.01)
    return ""


def _same(handle: int, lock: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(lock))
    except FileNotFoundError:
        return False
