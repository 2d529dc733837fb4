from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tianci.cli.quick_numpy import FEATURES, VARIABLE, sort_fast

ABOUT = """processor\t: 0
vendor_id\t: {vendor}
cpu family\t: {family}
model\t\t: 17
flags\t\t: fpu sse avx2 {flags}
"""


@pytest.mark.parametrize(
    ("vendor", "family", "flags", "expected"),
    [
        ("AuthenticAMD", 25, "avx512f avx512dq", FEATURES),  # Zen 4
        ("AuthenticAMD", 25, "", None),  # Zen 3
        ("AuthenticAMD", 26, "avx512f", None),  # Zen 5
        ("GenuineIntel", 6, "avx512f", None),
    ],
)
def test_only_zen_4_goes_without_avx512(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    vendor: str,
    family: int,
    flags: str,
    expected: str | None,
) -> None:
    monkeypatch.setenv(VARIABLE, "to be put back after the test")
    monkeypatch.delenv(VARIABLE)
    about = tmp_path / "cpuinfo"
    about.write_text(ABOUT.format(vendor=vendor, family=family, flags=flags), encoding="utf-8")
    monkeypatch.setitem(sys.modules, "numpy", sys)
    sort_fast(about)
    assert VARIABLE not in os.environ  # too late
    monkeypatch.delitem(sys.modules, "numpy")
    sort_fast(about)
    assert os.environ.get(VARIABLE) == expected
    monkeypatch.setenv(VARIABLE, "as the user said")
    sort_fast(about)
    assert os.environ[VARIABLE] == "as the user said"


def test_other_systems_tell_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "to be put back after the test")
    monkeypatch.delenv(VARIABLE)
    sort_fast(tmp_path / "missing")
    assert VARIABLE not in os.environ
