"""Shared by all tests: where the data sets are, and the table of parity results at the end of a
run."""

from __future__ import annotations

import os
import random
import sys
from collections import defaultdict
from operator import attrgetter
from pathlib import Path
from typing import Any

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


@pytest.fixture(autouse=True)
def same_dice() -> None:
    """A test draws the same numbers whichever tests came before it in its process."""
    random.seed(0)
    for name, seed in (("numpy", "random.seed"), ("torch", "manual_seed")):
        if name in sys.modules:
            attrgetter(seed)(sys.modules[name])(0)


@pytest.fixture
def shared_data() -> Path:
    """The folder with the real data sets; skips where they are not."""
    if not SHARED.is_dir():
        pytest.skip("the real data sets (../shared/data) are not on this machine")
    return SHARED


@pytest.fixture(scope="session")
def bf16() -> None:
    """Some virtual machines announce bf16 instructions that end the process."""
    from tianci.train.probe import bf16_speed

    if bf16_speed() is None:
        pytest.skip("products in bf16 end the process on this machine")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist hands its lists to the process that prints."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["measured"] = (PARITY, FAULTS)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """What a worker measured; one that crashed hands over nothing."""
    parity, faults = getattr(node, "workeroutput", {}).get("measured", ([], []))
    PARITY.extend(map(tuple, parity))
    FAULTS.extend(map(tuple, faults))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was measured on the way: planted faults, and differences to the references."""
    out = terminalreporter
    if FAULTS:
        out.section("planted faults and what the monitor said")
        for planted, fault, message in sorted(FAULTS):
            out.write_line(f"{planted:<34}{fault:<12}{message}")
    if not PARITY:
        return
    rows: dict[tuple[str, str], list[float]] = defaultdict(list)
    for family, what, source, difference in PARITY:
        # a line for each layer count and direction would hide the rest of a run; -v shows them
        layers = what.partition(" layers, ")[2]
        key = f"{what}, {source}" if out.config.get_verbosity() > 0 else layers or what
        rows[family, key].append(difference)
    out.section("parity with the reference (largest absolute difference)")
    out.write_line(f"{'family':<12}{'compared':<60}{'cases':>6}{'largest':>12}")
    for (family, what), found in sorted(rows.items()):
        out.write_line(f"{family:<12}{what:<60}{len(found):>6}{max(found):>12.1e}")
