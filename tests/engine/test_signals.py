"""A process that has had engines still answers to signals."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

pytest.importorskip("openvino", reason="OpenVINO is not installed")

PROGRAM = """
import gc, os, signal, sys
from tests.engine.models import made
from tianci.engine.in_openvino import InOpenVino
model = made("bert")
engines = [InOpenVino(model) for _ in range(3)]
while engines:
    del engines[0]  # the oldest first
    gc.collect()
signal.signal(signal.SIGTERM, lambda number, frame: print("heard", flush=True))
os.kill(os.getpid(), signal.SIGTERM)
"""


def test_signals_are_heard_when_models_have_gone() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert ended.returncode != -signal.SIGSEGV, "the stack for signals is gone"
    assert ended.stdout == "heard\n", ended.stderr
