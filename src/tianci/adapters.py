"""Adapters on disk: one small file with what was learned, naming its base and the base's hash.

`adapter.safetensors` holds adapters, norms and the head; `tianci.json` says where the base was and
what its weights hash to. Any number of such directories can share one base.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from tianci import __version__, checkpoint, manifest
from tianci.about import read_about
from tianci.checkpoint import OWN, Checkpoint, Tensors
from tianci.errors import UserError
from tianci.files import write_directory, write_json
from tianci.models import family
from tianci.nn import adapter
from tianci.nn.task_heads import HeadPlan, PlannedHead
from tianci.settings import build

FILE = "adapter.safetensors"


def is_adapter(folder: Path) -> bool:
    return (folder / FILE).exists() and not (folder / "config.json").exists()


def hash_of(base: str | Path) -> str:
    """The hash of a base's weights."""
    found = sorted(Path(base).glob("model*.safetensors"))
    if not found:
        raise UserError(f"{base} has no model.safetensors")
    digest = hashlib.sha256()
    for path in found:
        with open(path, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def write(
    folder: str | Path, model: Checkpoint, base: str | Path, home: str | Path | None = None
) -> None:
    """Writes what differs from the base: adapters, norms and biases that learned, the head.

    `home` is where the files will stand in the end, if not in this folder.
    """
    learned = {f"model.{n}": p for n, p in model.model.named_parameters() if p.requires_grad}
    for kind, head in model.heads.items():
        learned |= {f"heads.{kind}.{n}": t for n, t in head.state_dict().items()}
    sizes = [m.down.out_features for m in model.model.modules() if isinstance(m, adapter.Adapter)]
    own = model.heads.get(OWN)
    about = {
        **model.about,
        "tianci": __version__,
        "family": model.family,
        "heads": sorted(model.heads),
        **({"head": own.plan.as_table()} if isinstance(own, PlannedHead) else {}),
        "public": {k: model.extra[k] for k in ("id2label", "problem_type") if k in model.extra},
        "adapter": {
            "size": sizes[0] if sizes else 0,
            "layers": int(model.model.config.layers),
            "base": str(Path(base).resolve()),
            "base_relative": os.path.relpath(Path(base).resolve(), Path(home or folder).resolve()),
            "base_hash": hash_of(base),
        },
    }
    with write_directory(folder) as beside:
        tensors = {name: t.detach().cpu().contiguous() for name, t in learned.items()}
        save_file(tensors, beside / FILE, metadata={"format": "pt"})
        (beside / FILE).chmod(0o644)
        write_json(beside / "tianci.json", about)
        manifest.seal(beside)


def read(folder: str | Path, base: str | Path | None = None) -> Checkpoint:
    """The base with this adapter in it."""
    place = Path(folder)
    manifest.check_weights(place)
    about, told = read_told(place)
    model = checkpoint.read(base_of(place, told, base))
    put(model, place, about, told)
    return model


def read_told(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What tianci.json says, and what it says about the base."""
    about = read_about(folder)
    if not about.get("adapter"):
        raise UserError(f"{folder} is not an adapter: its tianci.json does not name a base")
    return about, about["adapter"]


def base_of(folder: Path, told: dict[str, Any], given: str | Path | None) -> Path:
    wanted = [Path(given)] if given else [Path(str(told.get("base"))),
                                          folder / str(told.get("base_relative"))]  # fmt: skip
    for place in wanted:
        if (place / "config.json").exists():
            if hash_of(place) != told.get("base_hash"):
                raise UserError(
                    f"{folder} was trained on other weights than those in {place} now; give the "
                    "base it was trained on"
                )
            return place
    raise UserError(
        f"{folder} is an adapter for {told.get('base')}, which is not there; give its base: "
        "tianci.load(DIR, base=...)"
    )


def put(model: Checkpoint, folder: Path, about: dict[str, Any], told: dict[str, Any]) -> None:
    """Changes a base into the model of an adapter."""
    config = model.model.config
    if told["layers"] < config.layers:
        model.model.keep_layers(told["layers"])
    if not 0 <= told["size"] <= config.width or told["layers"] < 1:
        raise UserError(f"{folder}: an adapter of size {told['size']} does not fit its base")
    if told["size"]:
        adapter.insert(model.model, config.width, told["size"])
    try:
        tensors = load_file(folder / FILE)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{folder / FILE} is not a whole safetensors file: {error}") from error
    model.heads = {}
    for kind in about.get("heads") or []:
        inside = f"heads.{kind}."
        state = {n.removeprefix(inside): t for n, t in tensors.items() if n.startswith(inside)}
        head = _empty(model, kind, about, state)
        _load(head, state, folder, strict=True)
        model.heads[kind] = head.eval()
    body = {n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")}
    wrong = _load(model.model, body, folder, strict=False)
    if wrong:
        raise UserError(f"{folder / FILE}: {wrong[0]} has no place in this base")
    model.model.eval()
    model.about = about
    model.extra |= about.get("public", {})


def _load(module: nn.Module, state: Tensors, folder: Path, strict: bool) -> list[str]:
    """Puts tensors in their places; the names of those that have none."""
    for name, tensor in state.items():
        if not tensor.is_floating_point() or not torch.isfinite(tensor).all():
            raise UserError(f"{folder / FILE}: {name} holds values that are not finite numbers")
    try:
        return list(module.load_state_dict(state, strict=strict).unexpected_keys)
    except RuntimeError as error:  # torch lists all that does not fit, line by line
        first = (str(error).splitlines() or [""])[-1].strip()
        raise UserError(f"{folder / FILE} does not fit its base: {first}") from error


def _empty(
    model: Checkpoint, kind: str, about: dict[str, Any], state: dict[str, torch.Tensor]
) -> nn.Module:
    if kind == OWN:
        return PlannedHead(
            model.model.config.width, build(HeadPlan, about.get("head") or {}, "head")
        )
    if kind in family(model.family).HEADS:  # generate speaks with it; --language learns with it
        return checkpoint.fresh_head(model.family, model.model.config, kind)
    known = family(model.family).TASK_HEADS
    if kind not in known or state.get("linear.weight", torch.empty(0)).ndim != 2:
        raise UserError(f"tianci.json of this adapter names a head, {kind!r:.100}, without weights")
    head: nn.Module = known[kind](model.model.config, state["linear.weight"].shape[0])
    return head
