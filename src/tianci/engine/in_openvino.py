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
from tianci.export.graph import Graph
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
        most, size = torch.get_num_threads(), group if int8 else 0

        def compiled(single: bool) -> ByThreads[_Compiled]:
            # written anew for each: kept, the graph would hold the weights once more
            return ByThreads(
                lambda threads: _Compiled(
                    packed_graph(model, WeightsOnly(int8), single), threads, most, size
                )
            )

        self.single, self.several = compiled(True), compiled(False)
        self.single.here()

    def last(self, batch: Batch) -> Tensor:
        compiled = (self.single if len(batch.layout) == 1 else self.several).here()
        given = {name: value for name, value in arrays(batch).items() if name in compiled.inputs}
        request = compiled.free.get()  # runs one batch at a time
        try:
            found = request.infer(given, share_inputs=True, share_outputs=True)
            # a copy: the next call writes into the same memory. By numpy: threads of torch would
            # spin behind it, and take the time of OpenVINO's
            return torch.from_numpy(found[0][: layout_rows(batch)].copy())
        finally:
            compiled.free.put(request)


class _Compiled:
    """As many requests as fit beside each other, each with so many threads."""

    def __init__(self, graph: Graph, threads: int, most: int, group: int):
        self.inputs = {one.name for one in graph.inputs}
        streams = max(1, most // threads)
        settings: dict[str, Any] = {
            "INFERENCE_NUM_THREADS": threads * streams,
            # bf16 would be faster for what int8 leaves as it is, but answers would depend on the
            # company in a batch (LOG.md)
            "INFERENCE_PRECISION_HINT": "f32",
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": group,
            **({"NUM_STREAMS": streams} if streams > 1 else {"PERFORMANCE_HINT": "LATENCY"}),
        }
        read = _core().read_model(io.BytesIO(graph.handed_over()))
        compiled = _core().compile_model(read, "CPU", settings)
        self.free: SimpleQueue[Any] = SimpleQueue()
        for _ in range(streams):
            self.free.put(compiled.create_infer_request())
