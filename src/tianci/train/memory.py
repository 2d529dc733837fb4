"""A training process keeps freed memory instead of giving it back after every step."""

from __future__ import annotations

import ctypes
import sys

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # glibc's numbers for mallopt


def keep_freed_memory() -> bool:
    """Asks glibc to reuse large blocks; whether it agreed.

    By default every tensor above 32 MiB is mapped anew and zeroed by the kernel, page by page: a
    third of the time of a vocabulary product in our profile. Other systems are left as they are.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    limit = 1 << 30
    return bool(mallopt(_MMAP_THRESHOLD, limit)) and bool(mallopt(_TRIM_THRESHOLD, limit))
