"""What a training process keeps: freed memory, instead of giving it back to the system after every
step; and not every kernel that was ever made."""

from __future__ import annotations

import ctypes
import os
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


def keep_few_kernels() -> None:
    """Asks oneDNN to forget kernels earlier than it would; must come before its first product.

    It makes one for each shape, and in bf16 every batch has another number of tokens: the 1,024
    that it keeps grew to 2.5 GB for a model of 5 million parameters. With 256 a step is as fast
    (LOG.md).
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")
