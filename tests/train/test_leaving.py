"""A process of several ends without the threads that exchange numbers: they would abort it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.faults.runs import ranks

ENDS = """
import atexit, os, torch.distributed as dist
def look():  # registered first, so called last
    print("initialised:", dist.is_initialized())
    print([t for t in os.listdir("/proc/self/task") if "gloo_runloop" in
           open(f"/proc/self/task/{t}/comm").read()])
atexit.register(look)
from tianci.train import parallel
world = parallel.join()
assert parallel.of_first(lambda: 7, world) == 7
"""


def test_no_thread_of_the_exchange_outlives_the_interpreter(tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text(ENDS)
    both = [
        subprocess.Popen(
            [sys.executable, tmp_path / "ends.py"], env={**os.environ, **names},
            stdout=subprocess.PIPE, text=True,
        )
        for names in ranks(2)
    ]  # fmt: skip
    for process in both:
        said, _ = process.communicate(timeout=120)
        assert (process.returncode, said.split("\n")[:2]) == (0, ["initialised: False", "[]"])
