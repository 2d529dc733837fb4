"""OpenVINO on the packed graph."""

from __future__ import annotations

import io
from functools import cache
from threading import Lock
from typing import Any

import openvino
import torch
from torch import Tensor

from tianci.batch import Batch
from tianci.engine.packed_graph import WeightsOnly, arrays, layout_rows, packed_graph
from tianci.models.base import Encoder

GROUP = 128  # numbers of a row that share a scale, in int8


@cache
def _core() -> openvino.Core:
    """One for the whole process.

    Each core gives the process a stack for signals, and takes it away when it goes; of several
    that go in another order than they came, the process keeps one that is not there any more, and
    dies at the next Ctrl-C or SIGTERM (seen with OpenVINO 2026.4).
    """
    return openvino.Core()


class InOpenVino:
    """A compiled model; as many threads as torch has."""

    most, slack = 1024, 1.25

    def __init__(self, model: Encoder, int8: bool = False, group: int = GROUP):
        graph = packed_graph(model, WeightsOnly(int8))
        self.segments = any(one.name == "segments" for one in graph.inputs)
        read = _core().read_model(io.BytesIO(graph.model().SerializeToString()))
        settings: dict[str, Any] = {
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": group if int8 else 0,
        }
        self.compiled = _core().compile_model(read, "CPU", settings)
        self.request = self.compiled.create_infer_request()
        self.turn = Lock()  # a request runs one batch at a time

    def last(self, batch: Batch) -> Tensor:
        given = arrays(batch)
        if not self.segments:
            del given["segments"]
        with self.turn:
            found = self.request.infer(given, share_inputs=True, share_outputs=True)
            # a copy: the next call writes into the same memory
            return torch.from_numpy(found[0][: layout_rows(batch)]).clone()
