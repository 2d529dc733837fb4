"""Other checkpoint formats to ours; what was written is read back and compared before it counts."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tianci import checkpoint, manifest
from tianci.batch import Batch
from tianci.convert.pytorch import read_bin
from tianci.convert.reference import bert_outputs
from tianci.convert.tensorflow import read_google_bert
from tianci.errors import UserError
from tianci.files import read_json, write_directory
from tianci.text.tokenizer import Tokenizer

LIMIT = 1e-4  # a converted model that differs by more is not written
# sentence-transformers keeps its pooling in these; without them `embed` would pool differently
COMPANIONS = ("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json")


def read_source(source: Path) -> tuple[str, dict[str, Any], dict[str, Tensor]]:
    """(format, public configuration, public tensors) of a directory in any known format."""
    if not source.is_dir():
        raise UserError(f"{source} is not a directory")
    if list(source.glob("*.ckpt*.index")):
        config, arrays = read_google_bert(source)
        return "tensorflow", config, {n: torch.from_numpy(np.array(a)) for n, a in arrays.items()}
    config = read_json(source / "config.json")
    if list(source.glob("pytorch_model*.bin")):
        return "pytorch", config, read_bin(source)
    return "safetensors", config, checkpoint.read_tensors(source)


def convert(source: str | Path, target: str | Path) -> dict[str, Any]:
    """Writes `target` in our layout; returns the format found and the largest output difference."""
    folder = Path(source)
    form, config, tensors = read_source(folder)
    kind, ours, extra = checkpoint.config_from_public(folder / "config.json", config)
    tensors = {name: t.float() if t.is_floating_point() else t for name, t in tensors.items()}
    architecture = checkpoint.architecture_of(folder / "config.json", config)
    converted = checkpoint.assemble(kind, ours, tensors, str(folder), architecture)
    converted.extra = extra
    converted.about = {"provenance": {"converted_from": form}}
    if any((folder / name).exists() for name in ("tokenizer.json", "vocab.txt", "vocab.json")):
        converted.tokenizer = Tokenizer.load(folder)
    with write_directory(target) as beside:
        checkpoint.write_into(beside, converted)
        for name in COMPANIONS:
            if (folder / name).exists():
                shutil.copy(folder / name, beside / name)
        for pooling in folder.glob("[0-9]_*/config.json"):
            (beside / pooling.parent.name).mkdir()
            shutil.copy(pooling, beside / pooling.parent.name / "config.json")
        largest = _largest_difference(checkpoint.read(beside), converted, tensors)
        if not largest <= LIMIT:  # also when it is not a number
            raise UserError(
                f"{folder}: outputs differ by {largest:.1e} after conversion, "
                f"{LIMIT:.0e} is allowed; nothing was written"
            )
        manifest.seal(beside)
    return {
        "format": form,
        "largest_difference": largest,
        "family": kind,
        "architecture": converted.architecture,
        "parameters": converted.parameter_count,
    }


def _largest_difference(
    written: checkpoint.Checkpoint, source: checkpoint.Checkpoint, tensors: Mapping[str, Tensor]
) -> float:
    """Outputs of what was written against those of the source.

    For BERT the source's tensors are run by a second, independent implementation; the other
    families have none here, so there it is the same model before it was written.
    """
    sizes = written.model.config
    random = np.random.default_rng(0)
    lengths = [1, 5, min(32, sizes.positions), min(32, sizes.positions)]
    ids = [random.integers(0, sizes.vocabulary, n).tolist() for n in lengths]
    kinds = getattr(sizes, "segments", 1)
    segments = [sorted(random.integers(0, kinds, n).tolist()) for n in lengths]
    with torch.inference_mode():
        ours = _outputs(written, ids, segments)
        if source.family == "bert":
            plain = checkpoint.plain_names(source.public, tensors)
            # the settings as they were understood: a file may leave them out, or say null
            told = checkpoint.config_to_public(source.public, source.model.config)
            expected = [
                bert_outputs(plain, told, row, kind)
                for row, kind in zip(ids, segments, strict=True)
            ]
        else:
            expected = _outputs(source, ids, segments)
        largest = 0.0
        for mine, theirs in zip(ours, expected, strict=True):
            for name, values in mine.items():
                gap = (values.double() - theirs[name].double()).abs().max().item()
                largest = max(largest, gap) if gap == gap else float("nan")
    return largest


def _outputs(
    checked: checkpoint.Checkpoint, ids: list[list[int]], segments: list[list[int]]
) -> list[dict[str, Tensor]]:
    """Last states of each sequence, and what the heads of pre-training say about it."""
    batch = Batch.of(ids, segments)
    lengths = [len(row) for row in ids]
    states = checked.model(batch)
    found: dict[str, Sequence[Tensor]] = {"last": states.last.split(lengths)}
    if "masked" in checked.heads:
        logits = checked.heads["masked"](states.last, checked.model.token_table())
        found["masked"] = logits.split(lengths)
    if "next_sentence" in checked.heads:
        found["next_sentence"] = checked.heads["next_sentence"](states.pooled()).split(1)
    return [{name: parts[i] for name, parts in found.items()} for i in range(len(ids))]
