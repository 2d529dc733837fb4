"""Shared by all tests: where the data sets are, and the table of parity results at the end of a
run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# before transformers is imported: nothing in the tests may ask a hub
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ.setdefault("TQDM_DISABLE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: tests share the machine

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "data"

PARITY: list[tuple[str, str, str, float]] = []  # family, what, where from, largest difference
FAULTS: list[tuple[str, str, str]] = []  # planted, detected as, message


@pytest.fixture
def shared_data() -> Path:
    """The folder with the real data sets; skips where they are not."""
    if not SHARED.is_dir():
        pytest.skip("the real data sets (../shared/data) are not on this machine")
    return SHARED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was measured on the way: planted faults, and differences to the references."""
    if FAULTS:
        terminalreporter.section("planted faults and what the monitor said")
        for planted, fault, message in FAULTS:
            terminalreporter.write_line(f"{planted:<34}{fault:<12}{message}")
    if not PARITY:
        return
    worst: dict[tuple[str, str, str], tuple[float, int]] = {}
    for family, what, source, difference in PARITY:
        old, count = worst.get((family, what, source), (0.0, 0))
        worst[family, what, source] = (max(old, difference), count + 1)
    out = terminalreporter
    out.section("parity with the reference (largest absolute difference)")
    out.write_line(f"{'family':<12}{'compared':<26}{'against':<34}{'cases':>6}{'largest':>12}")
    for (family, what, source), (difference, count) in worst.items():
        out.write_line(f"{family:<12}{what:<26}{source:<34}{count:>6}{difference:>12.1e}")
