"""OpenVINO on the packed graph."""

from __future__ import annotations

import io
from functools import cache
from queue import SimpleQueue
from typing import Any

import openvino
import torch
from torch import Tensor

from tianci.batch import Batch
from tianci.engine.by_threads import ByThreads
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
    """A compiled model; each batch gets as many threads as torch has where it is called."""

    most, slack = 1024, 1.25

    def __init__(self, model: Encoder, int8: bool = False, group: int = GROUP):
        graph = packed_graph(model, WeightsOnly(int8))
        self.segments = any(one.name == "segments" for one in graph.inputs)
        data, most = graph.model().SerializeToString(), torch.get_num_threads()
        smallest = group if int8 else 0
        self.requests = ByThreads(lambda threads: _requests(data, threads, most, smallest))
        self.requests.here()

    def last(self, batch: Batch) -> Tensor:
        given = arrays(batch)
        if not self.segments:
            del given["segments"]
        free = self.requests.here()
        request = free.get()  # a request runs one batch at a time
        try:
            found = request.infer(given, share_inputs=True, share_outputs=True)
            # a copy: the next call writes into the same memory
            return torch.from_numpy(found[0][: layout_rows(batch)]).clone()
        finally:
            free.put(request)


def _requests(data: bytes, threads: int, most: int, group: int) -> SimpleQueue[Any]:
    """As many requests as fit beside each other, each with so many threads."""
    streams = max(1, most // threads)
    settings: dict[str, Any] = {
        "INFERENCE_NUM_THREADS": threads * streams,
        "NUM_STREAMS": streams,
        "INFERENCE_PRECISION_HINT": "f32",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": group,
    }
    if streams == 1:
        settings["PERFORMANCE_HINT"] = "LATENCY"
        del settings["NUM_STREAMS"]
    read = _core().read_model(io.BytesIO(data))
    compiled = _core().compile_model(read, "CPU", settings)
    free: SimpleQueue[Any] = SimpleQueue()
    for _ in range(streams):
        free.put(compiled.create_infer_request())
    return free
