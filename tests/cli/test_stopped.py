"""A signal inside of a library: it is no fault of the data."""

from __future__ import annotations

import os
import signal

import pytest
import torch

from tianci.cli import _clean_up_on_termination, info, main
from tianci.errors import Stopped


def test_a_signal_while_weights_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch takes every Exception there for weights that do not fit."""
    layer = torch.nn.Linear(2, 2)
    weights = layer.state_dict()
    monkeypatch.setattr(torch.Tensor, "copy_", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    try:
        _clean_up_on_termination([])
        with pytest.raises(Stopped, match="stopped by SIGTERM"):
            layer.load_state_dict(weights)
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_that_a_library_took_for_something_else(
    number: signal.Signals, code: int, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """C code may drop what the handler raises, and complain of what it did not get."""

    def swallowed(*_: object, **__: object) -> None:
        try:
            os.kill(os.getpid(), number)
        except BaseException:
            raise ValueError("could not determine the shape") from None

    monkeypatch.setattr(info.info, "callback", swallowed)
    before = [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)]
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for _ in range(2):  # the second call in one process is told of its signal, not the first
            with pytest.raises(SystemExit) as stop:
                main(["info", "."])
            assert stop.value.code == code
            assert capsys.readouterr().err == f"tianci: stopped by {number.name}\n"
    finally:
        for one, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
            signal.signal(one, handler)
