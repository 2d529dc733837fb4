"""numpy without the AVX-512 code that sorts slowly on some processors; before numpy is imported."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

VARIABLE = "NPY_DISABLE_CPU_FEATURES"
FEATURES = "X86_V4 AVX512_ICL AVX512_SPR"  # names of numpy 2.4; older ones ignore them
ZEN_4 = 25  # the family; Zen 3 has it too, but no AVX-512


def sort_fast(processor: Path = Path("/proc/cpuinfo")) -> None:
    """On AMD Zen 4, lets numpy use AVX2, which sorts eight times as fast there.

    The AVX-512 code stores with an instruction that takes over 100 cycles on Zen 4
    (github.com/numpy/x86-simd-sort/issues/6). Where numpy is there already it is too late, and
    only processes that are started later would change: last bits of theirs would differ from ours.
    """
    if "numpy" in sys.modules:
        return
    try:
        with processor.open(encoding="utf-8") as file:
            about = file.read(4096)
    except OSError:  # not Linux
        return
    family = re.search(r"^cpu family\s*: (\d+)$", about, re.MULTILINE)
    if "AuthenticAMD" in about and family and int(family[1]) == ZEN_4 and "avx512f" in about:
        os.environ.setdefault(VARIABLE, FEATURES)
