"""--engine and --int8, for commands that run a model often enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

Function = Callable[..., Any]
NAMES = ("auto", "torch", "openvino", "onnx")


def engines(function: Function, usual: str = "auto") -> Function:
    """Both options."""
    function = click.option(
        "--int8",
        is_flag=True,
        help="encoders in int8: faster, smaller; refused where it keeps too little of the model",
    )(function)
    return click.option(
        "--engine",
        type=click.Choice(NAMES),
        default=usual,
        show_default=True,
        help="what runs encoders; auto: torch, unless another is clearly faster (measured once)",
    )(function)


def usually_torch(function: Function) -> Function:
    """Both options where one file is read: measuring first may take longer than reading it."""
    return engines(function, "torch")
