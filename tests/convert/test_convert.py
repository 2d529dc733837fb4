"""Converters: the result is compared with the source before it counts, and equals what others
compute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.hostile import examples
from tests.matrix.families import FAMILIES
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


@pytest.mark.parametrize("kind", [name for name in FAMILIES if name != "bert"])
def test_old_pytorch_files_of_every_family(tmp_path: Path, kind: str) -> None:
    """There is an independent yardstick for BERT only; the others are compared with themselves."""
    (tmp_path / "old").mkdir()
    examples.model(kind)(tmp_path / "old")
    weights = tmp_path / "old" / "model.safetensors"
    tensors = checkpoint.read_tensors(tmp_path / "old")
    torch.save(tensors, tmp_path / "old" / "pytorch_model.bin")
    before = checkpoint.read(tmp_path / "old")
    weights.unlink()
    facts = convert.convert(tmp_path / "old", tmp_path / "new")
    after = checkpoint.read(tmp_path / "new")
    assert facts["family"] == kind and facts["largest_difference"] <= 1e-6
    assert after.architecture == before.architecture and list(after.heads) == list(before.heads)
    batch = Batch.of([[5, 6, 7], [8, 9]])
    with torch.inference_mode():
        assert torch.equal(after.model(batch).last, before.model(batch).last)


@pytest.mark.parametrize("kind", ["SequenceClassification", "TokenClassification"])
def test_the_architecture_says_which_head_it_is(tmp_path: Path, kind: str) -> None:
    """Both keep their weights under one name, `classifier`."""
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                                     intermediate_size=32, vocab_size=50, num_labels=3)  # fmt: skip
    theirs = getattr(transformers, f"BertFor{kind}")(config)
    theirs.save_pretrained(tmp_path / "old")
    (tmp_path / "old" / "model.safetensors").unlink()
    torch.save(theirs.state_dict(), tmp_path / "old" / "pytorch_model.bin")
    facts = convert.convert(tmp_path / "old", tmp_path / "new")
    assert facts["architecture"] == f"BertFor{kind}"
    getattr(transformers, f"BertFor{kind}").from_pretrained(tmp_path / "new")


def test_settings_that_the_file_leaves_out(old: Path, tmp_path: Path) -> None:
    config = json.loads((old / "config.json").read_text())
    del config["layer_norm_eps"], config["hidden_act"]
    (old / "config.json").write_text(json.dumps(config))
    assert convert.convert(old, tmp_path / "again")["largest_difference"] < 1e-4


@pytest.mark.parametrize(
    "wrong",
    [
        {0: torch.ones(2)},
        {"bert.x": torch.ones(1).expand(10**14)},
        {"bert.x": torch.ones(2, 2).to_sparse()},
        {"bert.x": torch.ones(2, device="meta")},
        {"bert.x": torch.ones(2, dtype=torch.complex64)},
    ],
    ids=["no name", "larger than the file", "sparse", "without numbers", "complex"],
)
def test_tensors_that_are_no_weights(old: Path, tmp_path: Path, wrong: dict[Any, Any]) -> None:
    torch.save(wrong, old / "pytorch_model.bin")
    with pytest.raises(UserError, match="named tensors|no plain tensor|not a file of plain"):
        convert.convert(old, tmp_path / "again")
    assert not (tmp_path / "again").exists()
