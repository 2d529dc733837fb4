"""A forward pass whose numbers are known: does this machine compute as others do?"""

from __future__ import annotations

import math
from typing import Any

from tianci.doctor.check_error import CheckError

# the first numbers of a fixed forward pass, from the machine on which tianci was written; a
# reference implementation (transformers) agrees with them, see tests/doctor
REFERENCE = (-1.745696, 0.763358, 0.983353, 0.197015, -1.779105, 0.815333, 0.95083, 0.336447)
NEAR = 1e-4


def fixed_model() -> Any:
    """A small BERT whose weights are a formula, so that no random numbers matter."""
    import torch

    from tianci import checkpoint
    from tianci.models import bert

    config = bert.Config(
        vocabulary=32, width=32, layers=2, heads=4, hidden=64, positions=16, dropout=0.0
    )
    made = checkpoint.create("bert", config)
    place = 0
    with torch.no_grad():
        for name, weight in sorted(made.model.state_dict().items()):
            steps = torch.arange(place, place + weight.numel(), dtype=torch.float64)
            values = torch.sin(steps * 0.7071).float().view(weight.shape)
            weight.copy_(1 + 0.3 * values if name.endswith("norm.weight") else 0.3 * values)
            place += weight.numel()
    made.model.eval()
    return made


def fixed_batch() -> Any:
    """Two texts of different length."""
    from tianci.batch import Batch

    return Batch.of([[2, 9, 17, 4, 30, 11, 3], [2, 25, 8, 3]])


def forward() -> list[float]:
    """The numbers that are compared: two of the last states of each text."""
    import torch

    with torch.inference_mode():
        states = fixed_model().model(fixed_batch()).last
    return [round(float(x), 6) for x in (*states[0, :4], *states[-1, :4])]


def compare_forward() -> str:
    """The forward pass gives the numbers that it gave elsewhere."""
    found = forward()
    if len(found) != len(REFERENCE) or not all(map(math.isfinite, found)):
        raise CheckError(f"the fixed forward pass gave {found}", "reinstall torch")
    largest = max(abs(a - b) for a, b in zip(found, REFERENCE, strict=True))
    if largest > NEAR:
        raise CheckError(f"a fixed forward pass differs by {largest:.1e} from the reference",
                     "reinstall torch; if it stays, this processor computes wrongly (overclocked, "
                     "or a faulty virtual machine)")  # fmt: skip
    return f"a fixed forward pass agrees with the reference to {largest:.0e}"
