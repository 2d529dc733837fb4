"""Converters: the result is compared with the source before it counts, and equals what others
compute."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.parity.family import loud, same
from tianci import checkpoint, convert
from tianci.batch import Batch
from tianci.errors import UserError
from tianci.models import bert

GOLDEN = Path(__file__).parent.parent / "golden" / "tensorflow_bert"
CONFIG = bert.Config(vocabulary=30, width=16, layers=2, heads=2, hidden=24, positions=40)


def test_parity_with_tensorflows_own_outputs(tmp_path: Path) -> None:
    facts = convert.convert(GOLDEN, tmp_path / "model")
    assert facts["format"] == "tensorflow" and facts["largest_difference"] < 1e-4
    saved = checkpoint.read(tmp_path / "model")
    assert saved.tokenizer is not None and len(saved.tokenizer) == saved.model.config.vocabulary
    expected = np.load(GOLDEN / "expected_outputs.npz")
    lengths = expected["input_mask"].sum(1).tolist()
    ids = [row[:n].tolist() for row, n in zip(expected["input_ids"], lengths, strict=True)]
    segments = [row[:n].tolist() for row, n in zip(expected["segment_ids"], lengths, strict=True)]
    batch = Batch.of(ids, segments)
    saved.model.double()
    masked, order = saved.heads["masked"].double(), saved.heads["next_sentence"].double()
    states = saved.model(batch)

    def real(padded: np.ndarray) -> torch.Tensor:
        rows = [torch.from_numpy(row[:n]) for row, n in zip(padded, lengths, strict=True)]
        return torch.cat(rows).double()

    for ours, theirs in zip(states.layers, expected["layers"], strict=True):
        same("bert", "hidden states", "TensorFlow checkpoint", ours, real(theirs))
    logits = masked(states.last, saved.model.token_table())
    same("bert", "masked logits", "TensorFlow checkpoint", logits, real(expected["masked_logits"]))
    pooled = order.pooler(states.pooled("first"))
    expected_pooled = torch.from_numpy(expected["pooled"]).double()
    same("bert", "pooler", "TensorFlow checkpoint", pooled, expected_pooled)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A directory as transformers wrote it years ago."""
    made = checkpoint.create("bert", CONFIG, heads=("masked",))
    for part in (made.model, *made.heads.values()):
        loud(part, 2)
    checkpoint.write(tmp_path / "new", made)
    folder = tmp_path / "old"
    folder.mkdir()
    torch.save(checkpoint.public_tensors(made), folder / "pytorch_model.bin")
    (folder / "config.json").write_bytes((tmp_path / "new" / "config.json").read_bytes())
    return folder


def test_old_pytorch_files(old: Path, tmp_path: Path) -> None:
    facts = convert.convert(old, tmp_path / "again")
    assert facts["format"] == "pytorch" and facts["architecture"] == "BertForMaskedLM"
    assert facts["largest_difference"] < 1e-4
    expected = (tmp_path / "new" / "model.safetensors").read_bytes()
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == expected


def test_code_in_a_pickle_is_not_run(old: Path, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return Path.touch, (tmp_path / "was-here",)  # type: ignore[return-value]

    torch.save({"x": Evil()}, old / "pytorch_model.bin")
    with pytest.raises(UserError, match="is not a file of plain tensors"):
        convert.convert(old, tmp_path / "again")
    assert not (tmp_path / "was-here").exists() and not (tmp_path / "again").exists()


@pytest.mark.parametrize("content", [b"", b"not a zip at all", b"PK\x03\x04 broken"])
def test_broken_bin(old: Path, tmp_path: Path, content: bytes) -> None:
    (old / "pytorch_model.bin").write_bytes(content)
    with pytest.raises(UserError, match="is not a file of plain tensors"):
        convert.convert(old, tmp_path / "again")


def test_a_wrong_conversion_is_refused(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate compares outputs: here queries and keys change places on the way."""
    good = checkpoint.public_tensors

    def swapped(saved: checkpoint.Checkpoint) -> dict[str, torch.Tensor]:
        tensors = good(saved)
        names = (f"bert.encoder.layer.1.attention.self.{p}.weight" for p in ("query", "value"))
        a, b = names
        tensors[a], tensors[b] = tensors[b], tensors[a]
        return tensors

    monkeypatch.setattr(checkpoint, "public_tensors", swapped)
    with pytest.raises(UserError, match="outputs differ by .* nothing was written"):
        convert.convert(old, tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_incomplete_sources(old: Path, tmp_path: Path) -> None:
    config = json.loads((old / "config.json").read_text())
    (old / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 5}))
    with pytest.raises(UserError, match=r"tensor encoder\.layer\.2\S+ \(16, 16\) is missing"):
        convert.convert(old, tmp_path / "again")
    with pytest.raises(UserError, match="is not a directory"):
        convert.convert(tmp_path / "nothing", tmp_path / "again")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"config\.json does not exist"):
        convert.convert(tmp_path / "empty", tmp_path / "again")
