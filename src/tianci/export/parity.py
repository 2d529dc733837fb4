"""Whether a bundle says what our own model says, on real sentences of very different lengths."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray

from tianci.export.purpose import Purpose, Rows, Said

TOGETHER = 8  # rows of one run; they are padded to the longest of these


class Bundle:
    """A written model in onnxruntime."""

    def __init__(self, path: Path):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
        self.wanted = [one.name for one in self.session.get_inputs()]
        outputs = self.session.get_outputs()
        self.names = [one.name for one in outputs]
        self.tokenwise = {one.name for one in outputs if "length" in one.shape}

    def says(self, rows: Rows, pad: int) -> Said:
        """One array per row and output, without padding."""
        found: Said = {name: [] for name in self.names}
        for start in range(0, len(rows), TOGETHER):
            some = rows[start : start + TOGETHER]
            longest = max(len(ids) for ids, _ in some)
            grid = {
                "input_ids": _grid([ids for ids, _ in some], longest, pad),
                "attention_mask": _grid([[1] * len(ids) for ids, _ in some], longest, 0),
                "token_type_ids": _grid([segments for _, segments in some], longest, 0),
            }
            given = {name: grid[name] for name in self.wanted}
            for name, values in zip(self.names, self.session.run(None, given), strict=True):
                for (ids, _), row in zip(some, values, strict=True):
                    found[name].append(row[: len(ids)] if name in self.tokenwise else row[None])
        return found


def _grid(rows: Sequence[Sequence[int]], longest: int, fill: int) -> NDArray[np.int64]:
    return np.array([[*row, *[fill] * (longest - len(row))] for row in rows], np.int64)


def largest_difference(ours: Said, theirs: Said) -> float:
    """Over all numbers of all outputs; not a number where something is not finite, or not there."""
    largest = 0.0
    for name, rows in ours.items():
        for mine, other in zip(rows, theirs[name], strict=True):
            if mine.shape != other.shape:
                return float("nan")
            gap = float(np.abs(mine.astype(np.float64) - other).max())
            largest = max(largest, gap) if gap == gap else float("nan")
    return largest


def likeness(purpose: Purpose, ours: Said, theirs: Said) -> dict[str, Any]:
    """How much of what matters a coarser model keeps: `kind`, `value` and what is at least asked.

    Labels: how many are the same. Vectors: the mean cosine. Numbers: the correlation.
    """
    if purpose.says == "vector":
        pairs = zip(ours["sentence_embedding"], theirs["sentence_embedding"], strict=True)
        return {"kind": "cosine", "value": float(np.mean([_cosine(a, b) for a, b in pairs])),
                "at_least": 0.997}  # fmt: skip
    if purpose.says in ("number", "choice"):
        mine, other = (np.concatenate(said["logits"]).ravel() for said in (ours, theirs))
        return {"kind": "correlation", "value": float(np.corrcoef(mine, other)[0, 1]),
                "at_least": 0.98}  # fmt: skip
    same = []
    for name in ours:
        for mine, other in zip(ours[name], theirs[name], strict=True):
            same += np.atleast_1d(np.equal(mine.argmax(-1), other.argmax(-1))).tolist()
    return {"kind": "same labels", "value": float(np.mean(same)), "at_least": 0.9}


def _cosine(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    a, b = a.ravel(), b.ravel()
    return float(a @ b / max(1e-12, float(np.linalg.norm(a) * np.linalg.norm(b))))
