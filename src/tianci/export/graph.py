"""ONNX graphs, written node by node.

Only operators of the standard (opset 17), so that any runtime can run them. Matrices of int8 graphs
have one scale per output; what comes in is quantised while it runs, each row by its own lowest and
highest value, so that no text changes the answer for another one.

Shapes: B texts, L tokens of the longest one, W width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from tianci.nn import eight_bits

OPSET, IR = 17, 8  # of 2022: every runtime of the last years reads them
TINY = 1e-12  # a row of zeros has this width
PART_BYTES = 1_500_000_000  # one protobuf message holds 2 GB at most; weights go beside it then
Shape = Sequence[int | str]


class Graph:
    """Nodes and weights, as they are added."""

    def __init__(self, int8: bool = False):
        self.int8 = int8
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.weights: dict[str, onnx.TensorProto] = {}
        self.made: dict[nn.Module, tuple[Tensor, Tensor]] = {}  # weights changed for the graph
        self._known: dict[Any, str] = {}  # weights that several layers share are written once
        self._place: list[str] = []
        self._count = 0

    # ------------------------------------------------------------ nodes

    @contextmanager
    def within(self, name: str) -> Iterator[None]:
        """Names of nodes begin with this."""
        self._place.append(name)
        yield
        self._place.pop()

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output; returns its name."""
        return self.several(kind, 1, *inputs, **attributes)[0]

    def several(self, kind: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        """A node with some outputs."""
        self._count += 1
        name = "/".join([*self._place, f"{kind}_{self._count}"])
        made = [name if n == 0 else f"{name}:{n}" for n in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), made, name, **attributes))
        return made

    def input(self, name: str, shape: Shape, kind: int = TensorProto.INT64) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, name: str, value: str, shape: Shape) -> None:
        """Gives a value to the outside."""
        self.nodes.append(helper.make_node("Identity", [value], [name], name))
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    # ------------------------------------------------------------ weights

    def constant(self, values: NDArray[Any], name: str = "constant") -> str:
        """Numbers that never change."""
        self._count += 1
        full = "/".join([*self._place, f"{name}_{self._count}"])
        self.weights[full] = numpy_helper.from_array(np.asarray(values, order="C"), full)
        return full

    def integers(self, *values: int) -> str:
        """(n,) whole numbers, for shapes and axes."""
        key = ("integers", values)
        if key not in self._known:
            self._known[key] = self.constant(np.array(values, np.int64), "integers")
        return self._known[key]

    def number(self, value: float) -> str:
        """One number, which fits every shape."""
        key = ("number", value)
        if key not in self._known:
            self._known[key] = self.constant(np.array(value, np.float32), "number")
        return self._known[key]

    def weight(self, tensor: Tensor, name: str) -> str:
        """A parameter as it is."""
        key = ("weight", tensor.data_ptr(), tuple(tensor.shape))
        if key not in self._known:
            self._known[key] = self.constant(plain(tensor), name)
        return self._known[key]

    # ------------------------------------------------------------ common parts

    def linear(self, x: str, layer: nn.Linear, name: str, exact: bool = False) -> str:
        """x W' + b; `exact`: never int8."""
        return self.product(x, layer.weight, layer.bias, name, exact)

    def product(
        self,
        x: str,
        weight: Tensor,
        bias: Tensor | None,
        name: str,
        exact: bool = False,
    ) -> str:
        """(..., in) times (out, in) -> (..., out), plus (out,)."""
        with self.within(name):
            key = ("turned", weight.data_ptr(), exact)
            if self.int8 and not exact:
                out = self._int8_product(x, weight, key)
            else:
                if key not in self._known:
                    self._known[key] = self.constant(plain(weight).T, "weight")
                out = self.op("MatMul", x, self._known[key])
            return out if bias is None else self.op("Add", out, self.weight(bias, "bias"))

    def _int8_product(self, x: str, weight: Tensor, key: Any) -> str:
        """Each row of x in steps of its own, counted from its lowest value."""
        if (key, "scale") not in self._known:
            numbers, scale = map(plain, eight_bits.for_products(weight))
            self._known[key] = self.constant(numbers.T, "weight_int8")
            self._known[key, "scale"] = self.constant(scale, "weight_scale")
            sums = (scale * numbers.sum(1, dtype=np.int32)).astype(np.float32)
            self._known[key, "sums"] = self.constant(sums, "weight_sums")
        if "zero" not in self._known:
            self._known["zero"] = self.constant(np.array(0, np.uint8), "zero")
        low, high = (
            self.op(f"Reduce{which}", x, axes=[-1], keepdims=1) for which in ("Min", "Max")
        )
        range_of_row = self.op("Max", self.op("Sub", high, low), self.number(TINY))
        step = self.op("Mul", range_of_row, self.number(1 / 255))
        above = self.op("Div", self.op("Sub", x, low), step)
        small = self.op("QuantizeLinear", above, self.number(1.0), self._known["zero"])
        whole = self.op("MatMulInteger", small, self._known[key])
        out = self.op("Mul", self.op("Cast", whole, to=TensorProto.FLOAT), step)
        out = self.op("Mul", out, self._known[key, "scale"])
        return self.op("Add", out, self.op("Mul", low, self._known[key, "sums"]))

    def rows(self, table: Tensor, numbers: str, name: str) -> str:
        """The rows of a table that some numbers name."""
        with self.within(name):
            if not self.int8:
                return self.op("Gather", self.weight(table, "weight"), numbers)
            small, scale = map(plain, eight_bits.rows(table))
            picked = self.op("Gather", self.constant(small, "weight_int8"), numbers)
            scales = self.op("Gather", self.constant(scale[:, None], "weight_scale"), numbers)
            return self.op("Mul", self.op("Cast", picked, to=TensorProto.FLOAT), scales)

    def norm(self, x: str, layer: nn.LayerNorm, name: str) -> str:
        with self.within(name):
            return self.op(
                "LayerNormalization", x, self.weight(layer.weight, "weight"),
                self.weight(layer.bias, "bias"), axis=-1, epsilon=layer.eps,
            )  # fmt: skip

    # ------------------------------------------------------------ the file

    def model(self) -> onnx.ModelProto:
        """All of it as one message."""
        graph = helper.make_graph(
            self.nodes, "tianci", self.inputs, self.outputs, list(self.weights.values())
        )
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR,
            producer_name="tianci",
        )

    def handed_over(self) -> bytes:
        """The model for a runtime. The graph is empty afterwards: kept, the weights would lie in
        memory two times more while the runtime makes its own (BERT-base: a peak of 2.8 instead of
        2.3 GB)."""
        model = self.model()
        self.weights.clear()
        self.made.clear()
        return bytes(model.SerializeToString())

    @property
    def size(self) -> int:
        """Bytes of all weights."""
        return sum(len(one.raw_data) for one in self.weights.values())

    def save(self, path: Path, notes: dict[str, str]) -> None:
        """Checks the graph and writes it; very large weights go into a second file beside it."""
        model = self.model()
        helper.set_model_props(model, notes)
        onnx.save(
            model,
            str(path),
            save_as_external_data=self.size > PART_BYTES,
            location=path.name + ".data",
        )
        onnx.checker.check_model(str(path))


def plain(tensor: Tensor) -> NDArray[Any]:
    """The same numbers for numpy, which knows no bf16."""
    tensor = tensor.detach().cpu()
    return np.asarray((tensor.float() if tensor.is_floating_point() else tensor).numpy())


def scaled(size: int) -> float:
    """1 / sqrt(D)."""
    return 1 / math.sqrt(size)
