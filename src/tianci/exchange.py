"""Two paths change places in one move, so that no moment exists in which one of them is gone."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path

AT_FDCWD = -100  # paths are relative to the working directory
SWAP = 2  # RENAME_EXCHANGE on Linux, RENAME_SWAP on macOS
# what kernels and file systems say that do not know this
UNKNOWN = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EXDEV}


def exchange(one: Path, other: Path) -> bool:
    """Whether the two have changed places; False where system or file system cannot do it."""
    a, b = os.fsencode(one), os.fsencode(other)
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            failed = library.renamex_np(a, b, SWAP)
        else:
            failed = library.renameat2(AT_FDCWD, a, AT_FDCWD, b, SWAP)
    except (OSError, AttributeError, TypeError):  # no such library, or no such function in it
        return False
    if not failed:
        return True
    number = ctypes.get_errno()
    if number in UNKNOWN:
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))
