"""An encoder as one ONNX graph on packed tokens: nothing is padded but inside attention.

Shapes: T tokens, B sequences, L tokens of the longest one, A tokens that are asked for, W width.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto
from torch import Tensor

from tianci.batch import Batch
from tianci.engine.cut import rounded
from tianci.export import parts
from tianci.export.graph import Graph, plain
from tianci.models.base import Encoder
from tianci.nn import eight_bits

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class PackedInputs(parts.Inputs):
    """What a batch is given as; `ids` and `segments` are (T,), `barred` is (B, 1, 1, L)."""

    position: str = ""  # (T,)
    slots: str = ""  # (B, L) which token stands there; any, where none does
    back: str = ""  # (T,) where in the (B * L) slots a token stands

    def places(self, graph: Graph, table: str) -> str:
        return graph.op("Gather", table, self.position)

    def attend(self, graph: Graph, joined: str, heads: int, size: int) -> str:
        """(T, 3 W) -> (T, W): to the grid, attention, and back."""
        grid = graph.op("Gather", joined, self.slots)
        mixed = super().attend(graph, grid, heads, size)
        return graph.op(
            "Gather", graph.op("Reshape", mixed, graph.integers(-1, heads * size)), self.back
        )


@dataclass(frozen=True)
class SingleInputs(PackedInputs):
    """A batch of one text is its own grid: nothing is gathered."""

    def attend(self, graph: Graph, joined: str, heads: int, size: int) -> str:
        grid = graph.op("Reshape", joined, graph.integers(1, -1, 3 * heads * size))
        mixed = parts.Inputs.attend(self, graph, grid, heads, size)
        return graph.op("Reshape", mixed, graph.integers(-1, heads * size))


class WeightsOnly(Graph):
    """int8 weights stay weights here: the runtime quantises what it multiplies them with."""

    def _int8_product(self, x: str, weight: Tensor, key: Any) -> str:
        if key not in self._known:
            numbers, scale = map(plain, eight_bits.rows(weight))
            small = self.constant(numbers.T, "weight_int8")
            self._known[key] = self.op(
                "DequantizeLinear", small, self.constant(scale, "weight_scale"), axis=1
            )
        return self.op("MatMul", x, self._known[key])


def packed_graph(model: Encoder, graph: Graph, single: bool = False) -> Graph:
    """The whole body; its output `last` is (A, W). `single`: for batches of one text only."""
    given: dict[str, Any] = {
        "ids": graph.input("tokens", ("tokens",)),
        "segments": graph.input("segments", ("tokens",)) if parts.reads_segments(model) else None,
        "asked": graph.input("asked", ("asked",)),
        "position": graph.input("position", ("tokens",)),
        "mask": "",
        "inside": "",
    }
    shape = (1, 1, 1, "tokens") if single else ("batch", 1, 1, "length")
    given["barred"] = graph.input("barred", shape, TensorProto.FLOAT)
    if not single:
        given["slots"] = graph.input("slots", ("batch", "length"))
        given["back"] = graph.input("back", ("tokens",))
    inputs = SingleInputs(**given) if single else PackedInputs(**given)
    last = parts.states(graph, model, inputs)[-1]
    graph.output("last", last, ("asked", model.config.width))
    return graph


def arrays(batch: Batch) -> Arrays:
    """A batch as the graph's inputs; behind the tokens there are some that nobody reads, and the
    grid of attention may be a little longer than the longest sequence (see `rounded`)."""
    lengths = batch.layout.lengths
    places = _places_of_one(lengths) if len(lengths) == 1 else _places(lengths)
    count = len(places["position"])
    given = {**places, "tokens": _filled(batch.tokens.numpy(), count)}
    if batch.segments is not None:
        given["segments"] = _filled(batch.segments.numpy(), count)
    if batch.asked is not None:
        given["asked"] = _filled(batch.asked.numpy(), rounded(len(batch.asked)))
    return given


def _places(lengths: tuple[int, ...]) -> Arrays:
    """What depends on the lengths alone; all tokens are asked for, in the first segment."""
    each = np.array(lengths)
    tokens = int(each.sum())
    count, longest = rounded(tokens), rounded(int(each.max()))
    starts = np.cumsum(each) - each
    columns = np.arange(longest)
    inside = columns < each[:, None]
    owner = np.repeat(np.arange(len(each)), each)
    position = np.arange(tokens) - starts[owner]
    return {
        "segments": np.zeros(count, np.int64),
        "barred": np.where(inside, np.float32(0), np.float32(parts.FAR))[:, None, None],
        "asked": np.arange(count),
        "position": _filled(position, count),
        "slots": np.where(inside, starts[:, None] + columns, 0),
        "back": _filled(owner * longest + position, count),
    }


# a tenth of a millisecond, which is two hundredths of a short text
_places_of_one = lru_cache(maxsize=512)(_places)


def _filled(values: NDArray[Any], count: int) -> NDArray[Any]:
    """The values, and zeros behind them."""
    return values if len(values) == count else np.pad(values, (0, count - len(values)))


def layout_rows(batch: Batch) -> int:
    """How many rows of the output mean something."""
    return batch.layout.tokens if batch.asked is None else len(batch.asked)
