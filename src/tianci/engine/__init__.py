"""Engines: other ways to run an encoder than module by module, behind one function.

`torch` lays the weights out once; `openvino` and `onnx` run a packed graph (see packed_graph.py).
Decoders and T5 always run by their modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianci.engine.attached import Engine, Runner
from tianci.engine.blocks import encoder
from tianci.errors import UserError, need, unknown
from tianci.models.base import Encoder, Model

if TYPE_CHECKING:
    from tianci.checkpoint import Checkpoint

KINDS = ("torch", "openvino", "onnx")
NEEDS = {"torch": (), "openvino": ("openvino", "onnx"), "onnx": ("onnxruntime", "onnx")}
EXTRA = {"openvino": "openvino", "onnx": "export"}


def for_model(saved: Checkpoint | Model, kind: str | None = None, int8: bool = False) -> Engine:
    """An engine for a model, of that kind or else the one that measurement chose on this machine.

    Refuses what the engine cannot run, what differs from the modules by more than `TOLERANCE` in
    float32, and int8 that keeps too little (quality.py).
    """
    from tianci.engine.choice import chosen
    from tianci.engine.quality import check_exact, check_int8

    model = encoder(saved if isinstance(saved, Model) else saved.model).eval()
    engine = make(model, kind or chosen(model, int8), int8)
    if int8:
        engine.kept = check_int8(engine, saved)
    elif engine.name != "torch":
        check_exact(engine)
    return engine


def make(model: Encoder, kind: str, int8: bool = False) -> Engine:
    """An engine of that kind, unchecked."""
    if kind not in KINDS:
        raise unknown("engine", kind, (*KINDS, "auto"))
    for module in NEEDS[kind]:
        need(module, EXTRA[kind])
    return Engine(model, lambda: _runner(model, kind, int8), kind, int8)


def _runner(model: Encoder, kind: str, int8: bool) -> Runner:
    if kind == "openvino":
        from tianci.engine.in_openvino import InOpenVino

        return InOpenVino(model, int8)
    if kind == "onnx":
        from tianci.engine.in_onnx import InOnnx

        return InOnnx(model, int8)
    from tianci.engine.in_torch import InTorch

    return InTorch(model, int8)


def attach(saved: Checkpoint | Model, kind: str | None = "torch", int8: bool = False) -> str:
    """Puts an engine beside a model; returns which. "auto" or None: chosen by measurement.

    A model that only runs by its modules stays as it is, unless an engine or int8 was asked for.
    """
    model = saved if isinstance(saved, Model) else saved.model
    wanted = None if kind == "auto" else kind
    if wanted is not None and wanted not in KINDS:
        raise unknown("engine", wanted, (*KINDS, "auto"))
    try:
        body = encoder(model)
    except UserError:
        if int8 or wanted not in (None, "torch"):
            raise
        return "modules"
    body.engine = (
        for_model(saved, wanted, int8) if int8 or wanted != "torch" else make(body, "torch")
    )
    return body.engine.name
