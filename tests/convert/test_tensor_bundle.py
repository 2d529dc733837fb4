"""TensorFlow checkpoints: fixtures that TensorFlow itself wrote, and bytes that are wrong."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tianci.convert.tensor_bundle import FOOTER, MAGIC, crc32c, mask, read_bundle
from tianci.convert.tensorflow import public_name, read_google_bert
from tianci.errors import UserError

GOLDEN = Path(__file__).parents[1] / "golden" / "tensorflow_bert"
DATA = "bert_model.ckpt.data-00000-of-00001"
INDEX = "bert_model.ckpt.index"


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    """A copy of the tiny BERT, to be damaged."""
    for name in (INDEX, DATA, "bert_config.json"):
        shutil.copy(GOLDEN / name, tmp_path)
    return tmp_path


def change(file: Path, how: Callable[[bytes], bytes]) -> None:
    file.write_bytes(how(file.read_bytes()))


def flip(at: int) -> Callable[[bytes], bytes]:
    return lambda data: bytes(byte ^ 255 if n == at else byte for n, byte in enumerate(data))


# A writer of tables, for what TensorFlow does not write: small blocks, and wrong ones.


def varint(value: int) -> bytes:
    low, high = value & 127, value >> 7
    return bytes([low | 128]) + varint(high) if high else bytes([low])


def block(entries: list[tuple[bytes, bytes]], compression: int = 0) -> bytes:
    """A block whose keys repeat as much of the previous one as they can."""
    body, last = b"", b""
    for key, value in entries:
        shared = max(n for n in range(len(key) + 1) if key[:n] == last[:n] and n <= len(last))
        body += varint(shared) + varint(len(key) - shared) + varint(len(value))
        body += key[shared:] + value
        last = key
    body += (0).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes([compression])
    return body + mask(crc32c(np.frombuffer(body, np.uint8))).to_bytes(4, "little")


def table(blocks: list[list[tuple[bytes, bytes]]], compression: int = 0) -> bytes:
    data, handles = b"", []
    for entries in blocks:
        made = block(entries, compression)
        handles.append((entries[-1][0], varint(len(data)) + varint(len(made) - 5)))
        data += made
    footer = b""
    for made in (block([]), block(handles)):
        footer += varint(len(data)) + varint(len(made) - 5)
        data += made
    return data + footer.ljust(FOOTER - 8, b"\0") + MAGIC.to_bytes(8, "little")


def entry(values: np.ndarray[Any, Any], offset: int, dtype: int = 1) -> bytes:
    """A BundleEntryProto of a vector in shard 0."""
    crc = mask(crc32c(values.view(np.uint8)))
    dim = b"\x08" + varint(len(values))
    shape = b"\x12" + varint(len(dim)) + dim
    return (
        b"\x08" + varint(dtype) + b"\x12" + varint(len(shape)) + shape + b"\x20" + varint(offset)
        + b"\x28" + varint(values.nbytes) + b"\x35" + crc.to_bytes(4, "little")
    )  # fmt: skip


HEADER = (b"", b"\x08\x01")  # one shard


@pytest.mark.parametrize("prefix", ["bert_model.ckpt", "shards/mixed.ckpt"])
def test_tensors_are_those_tensorflow_read(prefix: str) -> None:
    bundle = read_bundle(GOLDEN / prefix)
    expected = np.load((GOLDEN / prefix).with_name("expected.npz"))
    assert set(bundle) - set(expected.files) == ({"text", "partitioned"} & set(bundle))
    assert len(expected.files) == (49 if prefix == "bert_model.ckpt" else 7)
    for name in expected.files:
        assert bundle[name].dtype == expected[name].dtype, name
        assert bundle[name].shape == expected[name].shape, name
        assert bundle[name].tobytes() == expected[name].tobytes(), name


def test_small_blocks_and_shared_prefixes(tmp_path: Path) -> None:
    names = [b"a/kernel", b"a/kernel/adam", b"a/kernels", b"b"]
    values = [np.arange(n + 1, dtype="<f4") + n for n in range(4)]
    places = np.cumsum([0] + [value.nbytes for value in values]).tolist()
    rows = [(n, entry(v, at)) for n, v, at in zip(names, values, places, strict=False)]
    (tmp_path / "x.index").write_bytes(table([[HEADER], rows[:3], rows[3:]]))
    (tmp_path / "x.data-00000-of-00001").write_bytes(b"".join(v.tobytes() for v in values))
    bundle = read_bundle(tmp_path / "x")
    assert [name.encode() for name in bundle] == names
    for name, value in zip(bundle, values, strict=True):
        assert bundle[name].tolist() == value.tolist()


@pytest.mark.parametrize(
    ("data", "crc"),
    [  # RFC 3720, B.4
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_crc(data: bytes, crc: int) -> None:
    assert crc32c(np.frombuffer(data, np.uint8)) == crc


def test_crc_over_several_chunks() -> None:
    data = np.random.default_rng(1).integers(0, 256, 600_001, dtype=np.uint8)
    crc = 0xFFFFFFFF
    steps = list(range(256))
    for _ in range(8):
        steps = [n >> 1 ^ (0x82F63B78 if n & 1 else 0) for n in steps]
    for byte in data.tolist():
        crc = steps[(crc ^ byte) & 255] ^ crc >> 8
    assert crc32c(data) == crc ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("file", "how", "message"),
    [
        (INDEX, flip(1922), r"\.index: .*wrong magic number.*copy or download it again"),
        (INDEX, flip(100), r"\.index: the checksum of the block at byte 0 is wrong; it is damaged"),
        (INDEX, lambda data: b"", r"wrong magic number"),
        (INDEX, lambda data: data[-FOOTER:], r"bytes are needed at byte"),
        (INDEX, lambda data: b"\xff" * 40 + data[-8:], r"a number is cut short or too long"),
        (DATA, lambda data: data[:-1], r"00000-of-00001: 24691 bytes, but its tensors need 24692"),
        (DATA, flip(7), r'checksum of tensor "bert/embeddings/LayerNorm/beta" is wrong'),
    ],
)
def test_damage_is_told(bert: Path, file: str, how: Callable[[bytes], bytes], message: str) -> None:
    change(bert / file, how)
    with pytest.raises(UserError, match=message):
        dict(read_bundle(bert / "bert_model.ckpt"))


def test_every_damage_to_an_index_is_told(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "shards", tmp_path, dirs_exist_ok=True)
    good = (tmp_path / "mixed.ckpt.index").read_bytes()
    cut = [good[:size] for size in range(len(good))]
    flipped = [flip(at)(good) for at in range(len(good) - FOOTER)]
    for data in cut + flipped:
        (tmp_path / "mixed.ckpt.index").write_bytes(data)
        with pytest.raises(UserError):
            read_bundle(tmp_path / "mixed.ckpt")


def test_nonsense_with_good_checksums_is_told(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    (tmp_path / "x.data-00000-of-00001").write_bytes(bytes(64))
    good = entry(np.zeros(4, "<f4"), 0)
    for _ in range(300):
        value = bytearray(good)
        value[rng.integers(len(value))] = rng.integers(256)
        (tmp_path / "x.index").write_bytes(table([[HEADER, (b"name", bytes(value))]]))
        try:
            read_bundle(tmp_path / "x")["name"]
        except UserError as error:
            assert "x." in str(error)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (table([[HEADER]], compression=1), "compressed blocks are not supported"),
        (table([[(b"a", b"")]]), "the header is missing"),
        (table([[(b"", b"\x08\x01\x10\x01")]]), "big-endian"),
        (table([[HEADER, (b"a", b"\x0f")]]), "unknown wire type 7"),
        (table([[HEADER, (b"\xff", b"")]]), "utf-8"),
    ],
)
def test_indexes_we_do_not_read(tmp_path: Path, index: bytes, message: str) -> None:
    (tmp_path / "x.index").write_bytes(index)
    with pytest.raises(UserError, match=rf"x\.index: .*{message}"):
        read_bundle(tmp_path / "x")


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"mixed\.ckpt\.index: no such file"):
        read_bundle(tmp_path / "mixed.ckpt")
    for name in ("mixed.ckpt.index", "mixed.ckpt.data-00000-of-00002"):
        shutil.copy(GOLDEN / "shards" / name, tmp_path)
    with pytest.raises(UserError, match=r"00001-of-00002: no such file; put it beside mixed"):
        read_bundle(tmp_path / "mixed.ckpt")


def test_tensors_we_do_not_read_are_named() -> None:
    bundle = read_bundle(GOLDEN / "shards" / "mixed.ckpt")
    with pytest.raises(UserError, match=r'tensor "text" has dtype string'):
        bundle["text"]
    with pytest.raises(UserError, match=r'tensor "partitioned" is partitioned'):
        bundle["partitioned"]


@pytest.mark.parametrize("dims", [[3], [2**40, 0, 2**40], [2**69, 0], [1] * 70])
def test_shapes_that_do_not_fit_are_told(tmp_path: Path, dims: list[int]) -> None:
    shape = b"".join(b"\x12" + varint(len(varint(d)) + 1) + b"\x08" + varint(d) for d in dims)
    size = 0 if 0 in dims else 4
    crc = mask(crc32c(np.zeros(size, np.uint8))).to_bytes(4, "little")
    made = b"\x08\x01\x12" + varint(len(shape)) + shape + b"\x28" + varint(size) + b"\x35" + crc
    (tmp_path / "x.index").write_bytes(table([[HEADER, (b"name", made)]]))
    (tmp_path / "x.data-00000-of-00001").write_bytes(bytes(size))
    with pytest.raises(UserError, match=rf'"name" takes {size} bytes, which do not fit its shape'):
        read_bundle(tmp_path / "x")["name"]


def test_names_and_shapes_are_those_of_hugging_face() -> None:
    from transformers import BertConfig, BertForPreTraining

    config, tensors = read_google_bert(GOLDEN)
    assert config["model_type"] == "bert"
    assert config["architectures"] == ["BertForPreTraining"]
    assert config["hidden_size"] == 16
    state = BertForPreTraining(BertConfig(**config)).state_dict()
    tied = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
    buffers = {name for name in state if name.endswith(("position_ids", "token_type_ids"))}
    theirs = {name: tuple(state[name].shape) for name in set(state) - tied - buffers}
    assert {name: tensor.shape for name, tensor in tensors.items()} == theirs
    assert all(tensor.flags.c_contiguous for tensor in tensors.values())


def test_hugging_face_answers_as_tensorflow_did() -> None:
    from transformers import BertConfig, BertForPreTraining

    config, tensors = read_google_bert(GOLDEN)
    model = BertForPreTraining(BertConfig(**config)).eval()
    state = {name: torch.from_numpy(tensor) for name, tensor in tensors.items()}
    assert not model.load_state_dict(state, strict=False).unexpected_keys
    model.tie_weights()
    expected = np.load(GOLDEN / "expected_outputs.npz")
    ids, attended, segments = (
        torch.from_numpy(expected[name]).long()
        for name in ("input_ids", "input_mask", "segment_ids")
    )
    with torch.inference_mode():
        given = model.double()(
            ids, attention_mask=attended, token_type_ids=segments, output_hidden_states=True
        )
    for mine, name in [
        (torch.stack(given.hidden_states), "layers"),
        (given.prediction_logits, "masked_logits"),
        (given.seq_relationship_logits, "next_sentence_logits"),
    ]:
        np.testing.assert_allclose(mine.numpy(), expected[name], rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "public"),
    [
        (
            "bert/encoder/layer_11/attention/self/query/kernel",
            "bert.encoder.layer.11.attention.self.query.weight",
        ),
        (
            "bert/encoder/layer_0/output/LayerNorm/gamma",
            "bert.encoder.layer.0.output.LayerNorm.weight",
        ),
        ("cls/predictions/output_bias", "cls.predictions.bias"),
        ("cls/seq_relationship/output_weights", "cls.seq_relationship.weight"),
        ("bert/encoder/layer_0/output/LayerNorm/kernel", None),
        ("output_weights", None),
    ],
)
def test_public_names(name: str, public: str | None) -> None:
    assert public_name(name) == public


def test_only_dense_kernels_are_transposed() -> None:
    raw = np.load(GOLDEN / "expected.npz")
    _, tensors = read_google_bert(GOLDEN)
    query = raw["bert/encoder/layer_1/attention/self/query/kernel"]
    assert (tensors["bert.encoder.layer.1.attention.self.query.weight"] == query.T).all()
    related = raw["cls/seq_relationship/output_weights"]
    assert (tensors["cls.seq_relationship.weight"] == related).all()


def test_folders_we_do_not_read(bert: Path) -> None:
    (bert / INDEX).rename(bert / "model.ckpt-12345.index")
    (bert / DATA).rename(bert / DATA.replace("bert_model.ckpt", "model.ckpt-12345"))
    assert len(read_google_bert(bert)[1]) == 46
    shutil.copy(bert / "model.ckpt-12345.index", bert / "model.ckpt-9.index")
    with pytest.raises(UserError, match=r"found: model\.ckpt-12345\.index, model\.ckpt-9\.index"):
        read_google_bert(bert)
    (bert / "model.ckpt-12345.index").unlink()
    (bert / "model.ckpt-9.index").unlink()
    with pytest.raises(UserError, match="found: none; give a folder with exactly one"):
        read_google_bert(bert)
    (bert / "bert_config.json").write_text("{")
    with pytest.raises(UserError, match=r"bert_config\.json, line 1: not JSON"):
        read_google_bert(bert)
    (bert / "bert_config.json").unlink()
    with pytest.raises(UserError, match=r"bert_config\.json: no such file"):
        read_google_bert(bert)


def test_unknown_tensors_are_named(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "shards", tmp_path, dirs_exist_ok=True)
    shutil.copy(GOLDEN / "bert_config.json", tmp_path)
    with pytest.raises(UserError, match=r"9 tensors .* such as brain, double, empty;"):
        read_google_bert(tmp_path)
