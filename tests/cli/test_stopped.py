"""A signal inside of a library: it is no fault of the data."""

from __future__ import annotations

import os
import signal

import pytest
import torch

from tianci.cli import _clean_up_on_termination
from tianci.errors import Stopped


def test_a_signal_while_weights_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch takes every Exception there for weights that do not fit."""
    layer = torch.nn.Linear(2, 2)
    weights = layer.state_dict()
    monkeypatch.setattr(torch.Tensor, "copy_", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    try:
        _clean_up_on_termination()
        with pytest.raises(Stopped, match="stopped by SIGTERM"):
            layer.load_state_dict(weights)
    finally:
        signal.signal(signal.SIGTERM, before)
