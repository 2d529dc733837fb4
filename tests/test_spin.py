"""Threads wait awake where nobody else wants the processor, and asleep elsewhere."""

from __future__ import annotations

import os

import pytest

import tianci


@pytest.mark.parametrize(("load", "spin"), [(0.1, "10000"), (1.5, "1000")])
def test_a_busy_machine_is_left_to_others(
    load: float, spin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    assert tianci._spin() == spin


def test_a_machine_that_does_not_tell_counts_as_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "getloadavg")
    assert tianci._spin() == "1000"
