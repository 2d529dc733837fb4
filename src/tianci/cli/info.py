"""tianci info"""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from tianci.cli.command import Run, command


@command("info", example="tianci info bert-base\ntianci info runs/mini --json")
@click.argument("model")
def info(run: Run, model: str) -> None:
    """Shows what a model is: configuration, parameters, bytes, FLOPs, task, labels, provenance.

    MODEL is a directory (tianci's or Hugging Face's) or a preset such as bert-mini.
    """
    facts = describe(model)
    run.result(facts, lambda: _table(facts))


def describe(model: str) -> dict[str, Any]:
    """All facts about a model directory or a preset."""
    from pathlib import Path

    import torch

    from tianci import checkpoint
    from tianci.models import family, is_preset, preset

    counts: dict[str, int] = {}
    if not Path(model).exists() and is_preset(model):
        kind, config = preset(model)
        with torch.device(
            "meta"
        ):  # sizes only: bert-large must not take a gigabyte to be described
            known = family(kind).HEADS
            saved = checkpoint.create(kind, config, ("pooler",) if "pooler" in known else ())
            for heads, name in saved.public.architectures.items():
                if heads <= set(known):  # heads of tasks have as many outputs as there are labels
                    made = checkpoint.create(kind, config, tuple(sorted(heads)))
                    counts[name] = made.parameter_count
    else:
        saved = checkpoint.read(model)
    parameters = saved.parameter_count
    body = saved.model
    labels = saved.extra.get("id2label")
    longest = body.config.positions
    return {
        "family": saved.family,
        "architecture": saved.architecture,
        "config": dataclasses.asdict(body.config),
        "parameters": parameters,
        "parameters_by_class": counts or {saved.architecture: parameters},
        "bytes": parameters * 4,
        "flops_per_token": {str(n): body.flops(n) for n in sorted({min(128, longest), longest})},
        "heads": sorted(saved.heads),
        "task": (saved.about.get("task") or {}).get("name"),
        "decision": saved.about.get("decision"),
        "scores": saved.about.get("scores"),
        "labels": [labels[key] for key in sorted(labels, key=int)]
        if labels
        else saved.about.get("labels"),
        "tokenizer": None
        if saved.tokenizer is None
        else {"kind": saved.tokenizer.kind, "size": len(saved.tokenizer)},
        "provenance": saved.about.get("provenance"),
        "module": family(saved.family).__name__,
    }


def _table(facts: dict[str, Any]) -> str:
    rows = [("family", facts["family"]), ("class", facts["architecture"])]
    rows += list(facts["config"].items())
    for name, count in facts["parameters_by_class"].items():
        rows.append((f"parameters, {name}", f"{count:,}"))
    rows.append(("bytes (float32)", f"{facts['bytes']:,}  ({facts['bytes'] / 2**20:,.1f} MiB)"))
    for length, flops in facts["flops_per_token"].items():
        rows.append(
            (
                f"FLOPs per token, length {length}",
                f"{flops:,.0f} forward, about {3 * flops:,.0f} in training",
            )
        )
    for name in ("heads", "task", "labels", "decision", "scores", "tokenizer", "provenance"):
        rows += _lines(name, facts[name])
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def _lines(name: str, value: Any) -> list[tuple[str, Any]]:
    """One row per fact, nested tables row by row; what is not known is left out."""
    if isinstance(value, dict):
        return [row for key, part in value.items() for row in _lines(f"{name}, {key}", part)]
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    return [] if value in (None, "", ()) else [(name, value)]
