"""onnxruntime on the packed graph."""

from __future__ import annotations

import onnxruntime
import torch
from torch import Tensor

from tianci.batch import Batch
from tianci.engine.by_threads import ByThreads
from tianci.engine.packed_graph import arrays, layout_rows, packed_graph
from tianci.export.graph import Graph
from tianci.models.base import Encoder


class InOnnx:
    """A session with as many threads as torch has where it is called."""

    most, slack = 1024, 1.25

    def __init__(self, model: Encoder, int8: bool = False):
        # written anew for each: kept, it would hold the weights once more
        self.sessions = ByThreads(lambda threads: _session(model, int8, threads))
        self.wanted = [one.name for one in self.sessions.here().get_inputs()]

    def last(self, batch: Batch) -> Tensor:
        given = arrays(batch)
        session = self.sessions.here()  # may be asked by several threads at once
        found = session.run(None, {name: given[name] for name in self.wanted})
        return torch.from_numpy(found[0][: layout_rows(batch)])


def _session(model: Encoder, int8: bool, threads: int) -> onnxruntime.InferenceSession:
    graph = packed_graph(model, Graph(int8)).model().SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
