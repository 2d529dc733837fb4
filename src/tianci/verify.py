"""Is a directory as it was written? Checkpoints, runs, token stores, bundles, adapters, tokenizers;
and directories of other tools, as far as that can be told."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tianci import manifest
from tianci.data import corpus
from tianci.errors import UserError
from tianci.files import read_json
from tianci.manifest import MANIFEST, Fault

TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json")


@dataclass
class Report:
    """What was found in one directory."""

    place: str
    kind: str  # checkpoint, run, model, adapter, bundle, tokenizer, corpus
    files: int = 0
    bytes: int = 0
    bad: list[Fault] = field(default_factory=list)
    note: str = ""

    def as_table(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "ok": not self.bad}


def verify(directory: str | Path) -> list[Report]:
    """A report for the directory, and for each directory of results in it when it is a run."""
    folder = Path(directory)
    if not folder.is_dir():
        raise UserError(f"{folder} is not a directory")
    reports = [_verify_one(place) for place in _places(folder)]
    if not reports:
        raise UserError(
            f"{folder} holds nothing that can be checked: no checkpoint, run, model, adapter, "
            "bundle, tokenizer or token store"
        )
    return reports


def kind_of(folder: Path) -> str | None:
    """What a directory holds, told by its files (one of them may be missing)."""
    there = {path.name for path in folder.iterdir()}
    if corpus.MANIFEST in there or any(folder.glob("*/shard.json")):
        return "corpus"
    if "resume" in there:
        return "checkpoint"
    if "export.json" in there or "model.onnx" in there:
        return "bundle"
    if "adapter.safetensors" in there:
        return "adapter"
    if "config.json" in there or any(name.endswith(".safetensors") for name in there):
        return "model"
    if there & {*TOKENIZER_FILES, "tokenizer_config.json"}:
        return "tokenizer"
    return "files" if MANIFEST in there else None


def _places(folder: Path) -> Iterator[Path]:
    """The directory itself if something is in it, and the results inside a run."""
    if kind_of(folder):
        yield folder
    if (folder / "run.json").exists() or (folder / "checkpoints").is_dir():
        for pattern in ("checkpoints/step-*", "best", "*/*/best", "*/*/checkpoints/step-*"):
            yield from sorted(place for place in folder.glob(pattern) if place.is_dir())


def _verify_one(folder: Path) -> Report:
    kind = kind_of(folder) or "files"
    report = Report(str(folder), kind)
    if kind == "corpus":
        _verify_corpus(folder, report)
    elif manifest.has_manifest(folder) or kind == "checkpoint" or folder.name.startswith("step-"):
        report.bad = manifest.faults(folder)
        _count(report, folder, _listed(folder))
    else:
        report.note = "no manifest.json: changed files cannot be noticed, only broken ones"
        _count(report, folder, list(manifest.inside(folder)))
        report.bad = _unreadable(folder, kind)
    return report


def _listed(folder: Path) -> list[str]:
    try:
        return list(manifest.listed(folder)[0])
    except UserError:
        return []


def _count(report: Report, folder: Path, names: list[str]) -> None:
    there = [folder / name for name in names if (folder / name).is_file()]
    report.files, report.bytes = len(there), sum(path.stat().st_size for path in there)


# ---------------------------------------------------------------- token stores


def _verify_corpus(folder: Path, report: Report) -> None:
    """corpus.json, every file of every shard, the tokenizer, and nothing else."""
    _count(report, folder, list(manifest.inside(folder)))
    try:
        info = corpus.read_manifest(folder)
    except UserError as error:
        report.bad.append(Fault(corpus.MANIFEST, str(error).removeprefix(f"{folder}: ")))
        return
    if info["version"] == 1:
        report.note = "written by an older tianci: corpus.json has no checksum of its own"
    known = {corpus.MANIFEST}
    for shard in (one for shards in info["splits"].values() for one in shards):
        name = shard["name"]
        for file, about in shard["files"].items():
            known.add(f"{name}/{file}")
            if wrong := manifest.fault_of(folder / name / file, about):
                report.bad.append(Fault(f"{name}/{file}", wrong))
        known.add(f"{name}/shard.json")
        if wrong := _shard_record(folder / name / "shard.json", shard, info["version"]):
            report.bad.append(Fault(f"{name}/shard.json", wrong))
    found = {name for name in manifest.inside(folder) if not name.startswith("tokenizer/")}
    report.bad += [Fault(name, "does not belong here") for name in sorted(found - known)]
    place = folder / "tokenizer"
    if not place.is_dir():
        report.bad.append(Fault("tokenizer", "is missing"))
    elif corpus.hash_of(place) != info["tokenizer"]:
        report.bad.append(Fault("tokenizer", "is not the one that made the store: it has changed"))


def _shard_record(path: Path, shard: dict[str, Any], version: int) -> str | None:
    if not path.is_file():
        return "is missing"
    try:
        told = manifest.read_sealed(path) if version > 1 else read_json(path)
    except UserError:
        return "is damaged"
    return None if told.get("files") == shard["files"] else f"does not fit {corpus.MANIFEST}"


# ---------------------------------------------------------------- without a manifest


def _unreadable(folder: Path, kind: str) -> list[Fault]:
    """Files that cannot be used: JSON that is none, weights with holes or without numbers."""
    bad = []
    for name in sorted(manifest.inside(folder)):
        path = folder / name
        try:
            if name.endswith(".json") and name not in ("vocab.json", "modules.json"):
                read_json(path)
            elif name.endswith(".safetensors"):
                _read_weights(path)
        except UserError as error:
            bad.append(Fault(name, str(error).removeprefix(f"{path} ").removeprefix(f"{path}: ")))
    if not bad and kind == "model":
        bad += _unusable_model(folder)
    return bad


def _read_weights(path: Path) -> None:
    """Reads one tensor after the other, so that a large file needs the memory of its largest."""
    import torch
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as content:
            for name in content.keys():  # noqa: SIM118  (not a dict)
                tensor = content.get_tensor(name)
                if tensor.is_floating_point() and not torch.isfinite(tensor).all():
                    raise UserError(f"{path} holds values in {name} that are not finite numbers")
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is not a whole safetensors file: {error}") from error


def _unusable_model(folder: Path) -> list[Fault]:
    from tianci.public_format import config_from_public
    from tianci.text.tokenizer import Tokenizer

    path = folder / "config.json"
    if not path.exists():
        return [Fault("config.json", "is missing")]
    try:
        config_from_public(path, read_json(path))
    except UserError as error:
        return [Fault("config.json", str(error).removeprefix(f"{path}: "))]
    bad = []
    index = folder / "model.safetensors.index.json"
    named = read_json(index).get("weight_map") if index.exists() else None
    for name in sorted(set(named.values())) if isinstance(named, dict) else ["model.safetensors"]:
        if not (folder / str(name)).is_file():
            bad.append(Fault(str(name), "is missing"))
    if any((folder / name).exists() for name in TOKENIZER_FILES):
        try:
            Tokenizer.load(folder)
        except UserError as error:
            bad.append(Fault("tokenizer", str(error)))
    return bad
