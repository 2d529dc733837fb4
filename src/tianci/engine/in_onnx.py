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
        def sessions(single: bool) -> ByThreads[_Session]:
            # written anew for each: kept, the graph would hold the weights once more
            return ByThreads(lambda threads: _Session(model, int8, single, threads))

        self.single, self.several = sessions(True), sessions(False)
        self.single.here()

    def last(self, batch: Batch) -> Tensor:
        session = (self.single if len(batch.layout) == 1 else self.several).here()
        given = arrays(batch)
        found = session.run(None, {name: given[name] for name in session.inputs})
        return torch.from_numpy(found[0][: layout_rows(batch)])


class _Session:
    """May be asked by several threads at once."""

    def __init__(self, model: Encoder, int8: bool, single: bool, threads: int):
        graph = packed_graph(model, Graph(int8), single)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        made = onnxruntime.InferenceSession(
            graph.handed_over(), options, providers=["CPUExecutionProvider"]
        )
        self.inputs, self.run = [one.name for one in graph.inputs], made.run
