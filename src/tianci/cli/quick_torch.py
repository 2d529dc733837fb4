"""torch for a command that answers and ends: imported without what only its compiler needs."""

from __future__ import annotations

import atexit
import gc
import sys
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

# Shape rules written in Python, with all of torch's decompositions behind them: a quarter of the
# import, read by torch.compile, torch.export and fake tensors only.
RULES = "torch._meta_registrations"
TRIED = ("2.13.",)  # where leaving them out was tried; other versions are imported as they are


def import_torch() -> None:
    """Imports torch about a third faster, unless it is there already.

    The objects of torch live as long as the process: looking through them for garbage, again and
    again while they are made and once more at the end, costs as much as the first answer.
    """
    if "torch" in sys.modules:
        return
    left_out = _is_tried() and RULES not in sys.modules
    gc.disable()
    if left_out:
        sys.modules[RULES] = ModuleType(RULES)
    try:
        import torch  # noqa: F401
    finally:
        if left_out:
            del sys.modules[RULES]  # whoever asks for them later gets the real ones
        gc.freeze()
        gc.enable()
    atexit.register(gc.freeze)


def _is_tried() -> bool:
    try:
        return version("torch").startswith(TRIED)
    except PackageNotFoundError:
        return False
