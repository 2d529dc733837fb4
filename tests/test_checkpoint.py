"""Model directories: exact round trips, old spellings, shards, and one clear sentence for each
fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.parity.family import loud
from tianci import checkpoint
from tianci.errors import UserError
from tianci.models import bert

CONFIG = bert.Config(vocabulary=30, width=16, layers=2, heads=2, hidden=24, positions=10)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = checkpoint.create("bert", CONFIG, heads=("masked", "next_sentence"))
    for part in (made.model, *made.heads.values()):
        loud(part, 1)
    made.about = {"provenance": {"made_by": "a test"}}
    checkpoint.write(tmp_path / "model", made)
    (tmp_path / "model" / "manifest.json").unlink()  # as other tools leave it, to be changed
    return tmp_path / "model"


def same(a: checkpoint.Checkpoint, b: checkpoint.Checkpoint) -> bool:
    one, two = checkpoint.public_tensors(a), checkpoint.public_tensors(b)
    return one.keys() == two.keys() and all(torch.equal(one[k], two[k]) for k in one)


def test_round_trip_is_exact(folder: Path, tmp_path: Path) -> None:
    first = checkpoint.read(folder)
    checkpoint.write(tmp_path / "again", first)
    second = checkpoint.read(tmp_path / "again")
    assert same(first, second) and second.model.config == CONFIG
    assert second.about["provenance"] == {"made_by": "a test"}
    assert second.architecture == "BertForPreTraining"
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (
        folder / "model.safetensors"
    ).read_bytes()


def test_shards_prefixes_old_names_and_half_precision(folder: Path, tmp_path: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    old = {
        k.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): v
        for k, v in tensors.items()
    }
    old["bert.embeddings.position_ids"] = torch.arange(10)[None]
    old["cls.predictions.decoder.weight"] = tensors[
        "bert.embeddings.word_embeddings.weight"
    ].clone()
    names = sorted(old)
    new = tmp_path / "sharded"
    new.mkdir()
    (new / "config.json").write_bytes((folder / "config.json").read_bytes())
    parts = {"a.safetensors": names[:20], "b.safetensors": names[20:]}
    for file, some in parts.items():
        save_file({n: old[n] for n in some}, new / file)
    weight_map = {n: file for file, some in parts.items() for n in some}
    (new / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    assert same(checkpoint.read(new), checkpoint.read(folder))
    (new / "b.safetensors").unlink()
    with pytest.raises(UserError, match=r"b\.safetensors is missing"):
        checkpoint.read(new)
    half = {n: t.half() for n, t in tensors.items()}
    save_file(half, folder / "model.safetensors")
    table = checkpoint.read(folder).model.token_table()
    assert table.dtype == torch.float32
    assert torch.equal(table, half["bert.embeddings.word_embeddings.weight"].float())


def test_training_does_not_write_to_the_file(folder: Path) -> None:
    before = (folder / "model.safetensors").read_bytes()
    saved = checkpoint.read(folder)
    with torch.no_grad():
        for p in saved.model.parameters():
            p.add_(1)
    assert (folder / "model.safetensors").read_bytes() == before


def edit(change: Callable[[dict[str, torch.Tensor]], None]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors")

    return apply


def config(**values: object) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    return apply


KEY = "bert.encoder.layer.1.attention.self.key.weight"


def cut_file(folder: Path) -> None:
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: len(data) // 2])


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            lambda f: (f / "config.json").write_text('{"a": 1,\n oops'),
            r"config\.json, line 2: not JSON",
        ),
        (
            lambda f: (f / "config.json").write_text("[1]"),
            "holds a JSON list, but an object is needed",
        ),
        (lambda f: (f / "config.json").unlink(), r"config\.json does not exist"),
        (lambda f: (f / "model.safetensors").unlink(), r"has no model\.safetensors"),
        (cut_file, "is not a whole safetensors file"),
        (config(model_type="brt"), 'model_type is "brt"; tianci reads: albert, bert, '),
        (config(num_attention_heads=3), "3 heads do not divide a width of 16"),
        (config(hidden_size="wide"), "hidden_size: expected `int`"),
        (config(hidden_size=32), r"has shape \(30, 16\), but the configuration wants \(30, 32\)"),
        (
            config(position_embedding_type="relative_key"),
            "position_embedding_type is 'relative_key'",
        ),
        (config(num_hidden_layers=3), r"tensor encoder\.layer\.2\.\S+ \(16, 16\) is missing"),
        (
            config(num_hidden_layers=1),
            "16 tensors have no place in bert, the first is encoder.layer.1",
        ),
        (
            edit(lambda t: t.pop(KEY)),
            r"layer\.1\.attention\.self\.key\.weight \(16, 16\) is missing",
        ),
        (
            edit(lambda t: t.update({KEY: torch.zeros(16, 15)})),
            r"key\.weight has shape \(16, 15\), but the configuration wants \(16, 16\)",
        ),
        (
            edit(lambda t: t[KEY].fill_(float("nan"))),
            r"key\.weight holds values that are not finite",
        ),
        (
            edit(lambda t: t.update(extra=torch.zeros(2, 3))),
            r"no place in bert, the first is extra \(2, 3\)",
        ),
        (
            edit(lambda t: t.pop("cls.predictions.bias")),
            r"tensor cls\.predictions\.bias \(30,\) is missing",
        ),
    ],
)
def test_bad_directories(folder: Path, fault: Callable[[Path], None], message: str) -> None:
    fault(folder)
    with pytest.raises(UserError, match=message) as raised:
        checkpoint.read(folder)
    assert str(folder) in str(raised.value) and "\n" not in str(raised.value)


def test_a_pickle_is_never_loaded(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UserError, match="a pickle, which is never loaded directly.*tianci convert"):
        checkpoint.read(folder)


def test_a_failed_write_leaves_the_old_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    saved = checkpoint.read(folder)

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(OSError, match="no space"):
        checkpoint.write(folder, saved)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before
    assert [p.name for p in folder.parent.iterdir()] == ["model"]
