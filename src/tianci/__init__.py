"""tianci: from your own raw text to a language model that works for you."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tianci.api import check, compare, finetune, pretrain
    from tianci.serve.predictor import Predictor, load


def _spin() -> str:
    """How long threads of torch wait for each other by spinning before they sleep.

    Where anything else runs on the machine, spinning makes small steps ten times slower; where
    nothing does, a longer spin makes training 6 to 10 % faster (LOG.md).
    """
    try:
        quiet = os.getloadavg()[0] < 0.7
    except (OSError, AttributeError):
        quiet = False
    return "10000" if quiet else "1000"


# Read by libgomp when torch is first imported; whoever has set it keeps it.
SPIN = _spin()
os.environ.setdefault("GOMP_SPINCOUNT", SPIN)

# The public names live in modules that import torch (seconds); `tianci --help` must not wait.
_PUBLIC = {
    "load": "tianci.serve.predictor",
    "Predictor": "tianci.serve.predictor",
    "pretrain": "tianci.api",
    "finetune": "tianci.api",
    "check": "tianci.api",
    "compare": "tianci.api",
}

__all__ = ["Predictor", "__version__", "check", "compare", "finetune", "load", "pretrain"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tianci' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PUBLIC[name]), name)
