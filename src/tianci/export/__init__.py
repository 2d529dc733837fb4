"""Bundles for other runtimes: model.onnx, the tokenizer, and export.json with all that is needed to
read its numbers. What was written is run and compared with our own output before it counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tianci import __version__, checkpoint, manifest
from tianci.checkpoint import config_to_public
from tianci.errors import UserError, need
from tianci.files import write_directory, write_json
from tianci.goals.tasks.tag import Tag
from tianci.nn.task_heads import PlannedHead

TOLERANCE = 1e-4  # a bundle in float32 that differs by more is not left


def export(
    source: str | Path,
    target: str | Path,
    int8: bool = False,
    what: str | None = None,
    texts: Sequence[str] = (),
) -> dict[str, Any]:
    """Writes the bundle; returns what `export.json` says. `texts` are compared besides our own.

    An int8 bundle is only left when the float32 one is right and the int8 one keeps what matters.
    """
    for module in ("onnx", "onnxruntime"):
        need(module, "export")
    from tianci.export.parity import Bundle, largest_difference, likeness
    from tianci.export.purpose import purpose_of
    from tianci.export.sentences import probes

    folder = Path(source)
    saved = checkpoint.read(folder)
    if saved.tokenizer is None:
        raise UserError(f"{folder} has no tokenizer (tokenizer.json or vocab.txt)")
    purpose = purpose_of(saved, folder, what)
    rows = probes(saved.tokenizer, purpose.limit, texts)
    pad = saved.tokenizer.pad or 0
    ours = purpose.ours(rows)
    with write_directory(target) as beside:
        file = beside / "model.onnx"
        notes = {"tianci": __version__, "family": saved.family}
        purpose.graph(False).save(file, notes)
        exact = largest_difference(ours, Bundle(file).says(rows, pad))
        if not exact <= TOLERANCE:  # also when it is not a number
            raise UserError(
                f"{folder}: outputs differ by {exact:.1e} in the bundle, {TOLERANCE:.0e} is "
                "allowed; nothing was written"
            )
        found: dict[str, Any] = {"precision": "float32", "largest_difference": exact}
        if int8:
            for old in beside.iterdir():
                old.unlink()
            purpose.graph(True).save(file, notes)
            said = Bundle(file).says(rows, pad)
            close = likeness(purpose, ours, said)
            found = {
                "precision": "int8",
                "largest_difference": largest_difference(ours, said),
                "kept": close,
            }
            if not close["value"] >= close["at_least"]:
                raise UserError(
                    f"{folder}: int8 keeps too little of this model ({close['kind']} "
                    f"{close['value']:.3f}, at least {close['at_least']} is asked); nothing was "
                    "written; export it without --int8"
                )
        size = sum(one.stat().st_size for one in beside.iterdir())
        facts = {**_about(purpose), **found, "compared": len(rows), "bytes": size}
        saved.tokenizer.save(beside)
        config = {
            "architectures": [saved.architecture],
            "model_type": saved.public.model_type,
            **saved.extra,
            **config_to_public(saved.public, saved.model.config),
        }
        write_json(beside / "config.json", config)
        write_json(beside / "export.json", facts)
        manifest.seal(beside)
    return facts


def _about(purpose: Any) -> dict[str, Any]:
    """What is needed to use the numbers."""
    saved, task = purpose.saved, purpose.task
    decision = saved.about.get("decision") or {}
    facts: dict[str, Any] = {
        "tianci": __version__,
        "family": saved.family,
        "task": None if task is None else task.name,
        "says": purpose.says,
        "inputs": [*("input_ids", "attention_mask"), *_segments(purpose)],
        "limit": purpose.limit,
        "pad": saved.tokenizer.pad or 0,
        "labels": list(task.labels) if task else [],
        "several_labels": bool(getattr(task, "many", False)),
        "threshold": decision.get("threshold"),
        "temperature": decision.get("temperature"),
        **purpose.pooling,
    }
    if "null_threshold" in decision:
        facts["null_threshold"] = decision["null_threshold"]
    if isinstance(task, Tag):
        facts["decoding"] = task.decoding or "each"
        head = purpose.head
        if isinstance(head, PlannedHead) and head.crf is not None:
            chain = head.crf.chain._asdict().items()
            facts["crf"] = {name: part.detach().tolist() for name, part in chain}
    return facts


def _segments(purpose: Any) -> list[str]:
    from tianci.export.parts import reads_segments

    return ["token_type_ids"] if reads_segments(purpose.model) else []
