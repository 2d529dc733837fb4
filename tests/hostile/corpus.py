"""Model directories made to run code, to read what they should not, or to exhaust the machine."""

from __future__ import annotations

import json
import os
import pickle
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.hostile import examples

CANARY = "canary"  # the file that hostile code would create, beside the model directory


class Bomb:
    """Creates the canary when it is unpickled."""

    def __init__(self, place: Path):
        self.place = str(place)

    def __reduce__(self) -> Any:
        return open, (self.place, "w")


def changed(name: str, **values: Any) -> Callable[[Path], None]:
    """A model with other values in one of its JSON files."""

    def make(folder: Path) -> None:
        examples.written_model(folder)
        path = folder / name
        table = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**table, **values}))

    return make


def pickled_as(name: str) -> Callable[[Path], None]:
    """A pickle under the name of a file that is read."""

    def make(folder: Path) -> None:
        examples.written_model(folder)
        if name.endswith(".bin"):
            (folder / "model.safetensors").unlink()
        (folder / name).write_bytes(pickle.dumps(Bomb(folder.parent / CANARY)))

    return make


def torch_saved(folder: Path) -> None:
    """What torch.save makes of an object that runs code."""
    examples.written_model(folder)
    (folder / "model.safetensors").unlink()
    torch.save({"a": Bomb(folder.parent / CANARY)}, folder / "pytorch_model.bin")


def with_code(folder: Path) -> None:
    """`auto_map`: Python files that transformers would import when told to trust them."""
    changed("config.json", model_type="evil", auto_map={"AutoModel": "modeling_evil.Evil"})(folder)
    code = f"open({str(folder.parent / CANARY)!r}, 'w')\n"
    (folder / "modeling_evil.py").write_text(code)
    (folder / "__init__.py").write_text(code)


def task_with_code(folder: Path) -> None:
    """A task that is a module inside the directory."""
    examples.classifier(folder)
    (folder.parent / "evilpackage").mkdir(exist_ok=True)
    code = f"open({str(folder.parent / CANARY)!r}, 'w')\n"
    (folder.parent / "evilpackage" / "__init__.py").write_text(code)
    (folder.parent / "evilpackage" / "task.py").write_text(code)
    about = json.loads((folder / "tianci.json").read_text())
    about["task"] = {"name": "evilpackage.task"}
    (folder / "tianci.json").write_text(json.dumps(about))


def weights(change: Callable[[dict[str, Any], bytes], tuple[Any, bytes]]) -> Callable[[Path], None]:
    """A model whose safetensors header was changed."""

    def make(folder: Path) -> None:
        examples.written_model(folder)
        path = folder / "model.safetensors"
        data = path.read_bytes()
        size = int.from_bytes(data[:8], "little")
        header, body = change(json.loads(data[8 : 8 + size]), data[8 + size :])
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + body)

    return make


def _overlapping(header: dict[str, Any], body: bytes) -> tuple[Any, bytes]:
    names = [n for n in header if n != "__metadata__"]
    header[names[1]] = dict(header[names[0]])
    return header, body


def _outside(header: dict[str, Any], body: bytes) -> tuple[Any, bytes]:
    name = next(n for n in header if n != "__metadata__")
    header[name]["data_offsets"] = [0, 2**50]
    return header, body


def _huge(header: dict[str, Any], body: bytes) -> tuple[Any, bytes]:
    name = next(n for n in header if n != "__metadata__")
    header[name]["shape"] = [2**40, 2**40]
    return header, body


def _negative(header: dict[str, Any], body: bytes) -> tuple[Any, bytes]:
    name = next(n for n in header if n != "__metadata__")
    header[name]["data_offsets"] = [-8, 8]
    return header, body


def _gap(header: dict[str, Any], body: bytes) -> tuple[Any, bytes]:
    return header, body + b"\0" * 4096


def index_to(name: str) -> Callable[[Path], None]:
    """A weight_map that names a file elsewhere."""

    def make(folder: Path) -> None:
        examples.shards(folder)
        path = folder / "model.safetensors.index.json"
        table = json.loads(path.read_text())
        first = next(iter(table["weight_map"]))
        table["weight_map"][first] = name
        path.write_text(json.dumps(table))

    return make


def tokenizer_with(part: str, value: Any) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        examples.written_model(folder)
        path = folder / "tokenizer.json"
        table = json.loads(path.read_text())
        table[part] = value
        path.write_text(json.dumps(table))

    return make


def split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def replace(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


def pipe(name: str) -> Callable[[Path], None]:
    """A file that never ends, or never begins."""

    def make(folder: Path) -> None:
        examples.written_model(folder)
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return make


def device(name: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        examples.written_model(folder)
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to("/dev/zero")

    return make


def large(name: str, size: int = 1 << 30) -> Callable[[Path], None]:
    """A file of a gigabyte (with holes: it takes no place on the disk)."""

    def make(folder: Path) -> None:
        examples.written_model(folder)
        with open(folder / name, "wb") as file:
            file.write(b"{")
            file.truncate(size)

    return make


def archive(folder: Path) -> None:
    """An archive with a path that leads out and a link, in place of the weights."""
    examples.written_model(folder)
    with tarfile.open(folder / "model.safetensors", "w") as file:
        inside = tarfile.TarInfo(f"../{CANARY}")
        file.addfile(inside)
        link = tarfile.TarInfo("x")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        file.addfile(link)


def deep(folder: Path) -> None:
    examples.written_model(folder)
    (folder / "config.json").write_text('{"a": ' + "[" * 200_000 + "]" * 200_000 + "}")


def commas(folder: Path) -> None:
    """Sixty megabytes that would be gigabytes of empty lists."""
    examples.written_model(folder)
    (folder / "config.json").write_bytes(b'{"a": [' + b"[]," * 20_000_000 + b"[]]}")


REFUSED: dict[str, Callable[[Path], None]] = {
    **{f"pickle as {name}": pickled_as(name) for name in (
        "model.safetensors", "config.json", "tokenizer.json", "tianci.json", "pytorch_model.bin",
        "tokenizer_config.json")},
    "torch.save of code": torch_saved,
    "auto_map": with_code,
    "task that is a module": task_with_code,
    "YAML tag as config": lambda folder: (
        examples.written_model(folder),
        (folder / "config.json").write_text("!!python/object/apply:os.system ['true']"),
    )[0],
    "archive as weights": archive,
    "overlapping tensors": weights(_overlapping),
    "tensor outside the file": weights(_outside),
    "tensor of 2^80 numbers": weights(_huge),
    "negative offsets": weights(_negative),
    "bytes that no tensor has": weights(_gap),
    "header that is no JSON": weights(lambda header, body: (b"{" * 1000, body)),
    "weight_map to ..": index_to("../../outside.safetensors"),
    "weight_map to a path": index_to("/dev/zero"),
    "weight_map to a folder": index_to("."),
    "a billion layers": changed("config.json", num_hidden_layers=10**9),
    "width of a billion": changed("config.json", hidden_size=2 * 10**9, num_attention_heads=2),
    "vocabulary of 10^15": changed("config.json", vocab_size=10**15),
    "positions of 10^12": changed("config.json", max_position_embeddings=10**12),
    "layers that are not there": changed("config.json", num_hidden_layers=900),
    "regex that explodes": tokenizer_with("pre_tokenizer", split("(a+)+$")),
    "regex that is quadratic": tokenizer_with("pre_tokenizer", split(r"\s+$")),
    "replacement that doubles": tokenizer_with(
        "normalizer", {"type": "Sequence", "normalizers": [replace("a", "aa")] * 50}
    ),
    "config.json without an end": device("config.json"),
    "config.json that waits": pipe("config.json"),
    "weights that wait": pipe("model.safetensors"),
    "tokenizer.json that waits": pipe("tokenizer.json"),
    "config.json of 1 GB": large("config.json"),
    "tokenizer.json of 1 GB": large("tokenizer.json"),
    "config.json 200,000 deep": deep,
    "config.json of commas": commas,
}  # fmt: skip

# read as if it were not there
IGNORED: dict[str, Callable[[Path], None]] = {
    "chat template": changed(
        "tokenizer_config.json", chat_template="{{ ''.__class__.__mro__[1].__subclasses__() }}"
    ),
    "auto_map beside a known type": changed(
        "config.json", auto_map={"AutoModel": "modeling_evil.Evil"}
    ),
}


def objects(path: Path) -> None:
    """A .npy file of Python objects."""
    np.save(path, np.array([Bomb(path.parent / CANARY)], dtype=object), allow_pickle=True)
