"""A process that kills itself (SIGKILL) before the n-th time it touches the file system.

Between two such moments a kill changes nothing, so going through all n is going through all kills
of a piece of work. Python announces most of them itself (audit events); fsync it does not, and
files written by libraries are cut in half to stand for a kill inside of them.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHANGES = {
    "open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.chmod", "os.truncate",
    "shutil.rmtree", "shutil.copyfile", "tempfile.mkdtemp", "tempfile.mkstemp", "tianci.kill_point",
}  # fmt: skip


def arm(below: Path, at: int, seen: Callable[[int], None] = lambda count: None) -> None:
    """From now on this process counts what it does below a folder, and dies before number `at`."""
    count = 0
    place = str(below.resolve())

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if event not in CHANGES or not any(place in str(a) for a in arguments[:2]):
            return
        if event == "open" and not _writes(arguments):
            return
        count += 1
        seen(count)
        if count == at:
            os.kill(os.getpid(), signal.SIGKILL)

    plain = os.fsync

    def fsync(handle: int) -> None:
        sys.audit("tianci.kill_point", place)
        plain(handle)

    os.fsync = fsync
    _cut_weights_in_half(place)
    sys.addaudithook(watch)


def _writes(arguments: tuple[Any, ...]) -> bool:
    flags = arguments[2] if len(arguments) > 2 and isinstance(arguments[2], int) else 0
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _cut_weights_in_half(place: str) -> None:
    """A kill while safetensors writes: the point lies behind the first half of the file."""

    def cutting(plain: Callable[..., None]) -> Callable[..., None]:
        def save_file(tensors: Any, path: Any, *more: Any, **named: Any) -> None:
            plain(tensors, path, *more, **named)
            if place in str(Path(path).resolve()):
                whole = Path(path).read_bytes()
                os.truncate(path, len(whole) // 2)
                sys.audit("tianci.kill_point", place)
                Path(path).write_bytes(whole)

        return save_file

    for name in ("adapters", "checkpoint", "train.state"):
        if module := sys.modules.get(f"tianci.{name}"):  # others are not in use
            module.save_file = cutting(module.save_file)  # type: ignore[attr-defined]


def killed(below: Path, at: int, work: Callable[[], object]) -> bool:
    """Does the work in a child that dies at point `at`; False if it came to its end before."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            arm(below, at)
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, -signal.SIGKILL), f"the work itself failed with {status}"
    return status != 0
