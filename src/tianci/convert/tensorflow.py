"""Checkpoints of google-research/bert, under the public Hugging Face BERT names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianci.convert.tensor_bundle import read_bundle
from tianci.errors import UserError
from tianci.files import read_json

# the optimiser's; tf.train.AdamOptimizer and a well-known fork name their slots after themselves
SKIPPED = {"adam_m", "adam_v", "Adam", "Adam_1", "global_step", "beta1_power", "beta2_power"}
SKIPPED |= {"AdamWeightDecayOptimizer", "AdamWeightDecayOptimizer_1"}

TABLES = ("word_embeddings", "token_type_embeddings", "position_embeddings")
SPECIAL = {f"bert/embeddings/{name}": f"bert.embeddings.{name}.weight" for name in TABLES} | {
    "cls/predictions/output_bias": "cls.predictions.bias",
    "cls/seq_relationship/output_weights": "cls.seq_relationship.weight",
    "cls/seq_relationship/output_bias": "cls.seq_relationship.bias",
}
LAYER = r"bert/encoder/layer_\d+"
DENSE = re.compile(
    rf"({LAYER}/(attention/self/(query|key|value)|(attention/output|intermediate|output)/dense)"
    r"|bert/pooler/dense|cls/predictions/transform/dense)/(kernel|bias)"
)
NORM = re.compile(
    rf"({LAYER}/(attention/)?output|bert/embeddings|cls/predictions/transform)/LayerNorm/(gamma|beta)"
)
LEAVES = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}


def read_google_bert(directory: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The public configuration and tensors of the one checkpoint in `directory`."""
    config = _config(directory / "bert_config.json")
    bundle = read_bundle(_prefix(directory))
    names = {name: public_name(name) for name in bundle if not SKIPPED & set(name.split("/"))}
    strange = [name for name, public in names.items() if public is None]
    if strange:
        raise UserError(
            f"{directory}: {len(strange)} tensors that google-research/bert does not have, such as "
            f"{', '.join(strange[:3])}; only its pre-training checkpoints can be read"
        )
    tensors: dict[str, NDArray[Any]] = {}
    for name, public in names.items():
        if public is not None:
            # TensorFlow keeps dense layers as [in, out], PyTorch as [out, in]
            value = bundle[name].T if name.endswith("/kernel") else bundle[name]
            tensors[public] = np.ascontiguousarray(value)
    return config, tensors


def public_name(name: str) -> str | None:
    """The Hugging Face name of a google-research/bert variable, None if it has none."""
    if name in SPECIAL:
        return SPECIAL[name]
    if not (DENSE.fullmatch(name) or NORM.fullmatch(name)):
        return None
    module, leaf = name.rsplit("/", 1)
    return f"{module.replace('/layer_', '/layer/')}/{LEAVES[leaf]}".replace("/", ".")


def _prefix(directory: Path) -> Path:
    """The only checkpoint in the directory, without its .index."""
    found = sorted(directory.glob("*.ckpt*.index"))
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        raise UserError(
            f"{directory}: one checkpoint (*.ckpt.index or model.ckpt-*.index) is needed, "
            f"found: {names}; give a folder with exactly one"
        )
    return found[0].with_suffix("")


def _config(file: Path) -> dict[str, Any]:
    """bert_config.json, with what Hugging Face's config.json says besides."""
    if not file.exists():
        raise UserError(f"{file}: no such file; put it beside the checkpoint")
    return {
        "layer_norm_eps": 1e-12,  # fixed in google's code, so its file does not say
        **read_json(file),
        "model_type": "bert",
        "architectures": ["BertForPreTraining"],
    }
