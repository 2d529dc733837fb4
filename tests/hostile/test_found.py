"""What fuzzing found once, by itself: each case ends with 2 and a line that says what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.hostile import examples
from tests.hostile.guard import command
from tianci import checkpoint
from tianci.comparison.recipe import read_recipe
from tianci.errors import UserError
from tianci.files import parse_json
from tianci.manifest import read_sealed
from tianci.settings import parse_assignment, read_toml
from tianci.text.tokenizer import Tokenizer

DEEP = "{a." + "b." * 400 + "c = 1}"  # TOML that is read, but too deep to be written or checked


def change(path: Path, how: Callable[[Any], None]) -> None:
    value = json.loads(path.read_text(encoding="utf-8"))
    how(value)
    path.write_text(json.dumps(value), encoding="utf-8")


def test_deep_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f"[model]\nlayers = {DEEP}\n")
    with pytest.raises(UserError, match=r"settings\.toml .*nested too deeply"):
        read_toml(file)
    assert command("pretrain", "--settings", file, "--print-settings") == 2
    file.write_text("[model]\nlayers = [[1, {a = [2]}]]\n")
    assert read_toml(file)["model"]["layers"] == [[1, {"a": [2]}]]
    assert parse_assignment(f"model.layers={DEEP}")[2] == DEEP  # as other text that is no TOML


def test_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    examples.recipe(tmp_path)
    file = tmp_path / "recipe.toml"
    good = file.read_text()
    for name in ("x" * 5000, "a\\u0000b"):
        file.write_text(good.replace('"text.txt"', f'"{name}"'))
        with pytest.raises(UserError, match=r"recipe\.toml names "):
            read_recipe(file)
    assert command("info", "x" * 5000) == 2


def test_half_a_character_in_json(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"x\.json: '\\ud800' in it is half a character"):
        parse_json("x.json", b'{"a": ["\\uD800"]}')
    assert parse_json("x.json", b'["\\ud83d\\ude00", "\\\\ud800"]') == ["😀", "\\ud800"]
    examples.tokenizer("bpe")(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"mask_token": "\\ud800"}')
    assert command("tokenize", tmp_path, "a") == 2


def test_a_piece_that_is_listed_twice(tmp_path: Path) -> None:
    examples.tokenizer("unigram")(tmp_path)

    def again(value: Any) -> None:
        value["model"]["vocab"].insert(1, value["model"]["vocab"][1])

    change(tmp_path / "tokenizer.json", again)
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.token(1) == tokenizer.token(2) == "[UNK]"
    assert command("tokenize", tmp_path, "今天 ☃", "--json") == 0


def test_a_template_with_a_number_outside_the_vocabulary(tmp_path: Path) -> None:
    examples.tokenizer("bpe")(tmp_path)

    def outside(value: Any) -> None:
        for token in value["post_processor"]["special_tokens"].values():
            token["ids"] = [10**6]

    change(tmp_path / "tokenizer.json", outside)
    with pytest.raises(UserError, match="1000000 is not in the vocabulary"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("prefix", ["x", "##", "天"])
def test_a_prefix_that_the_merges_do_not_have(tmp_path: Path, prefix: str) -> None:
    """The engine would end the process (a panic while it cleans up behind a panic)."""
    examples.tokenizer("bpe")(tmp_path)
    change(tmp_path / "tokenizer.json",
           lambda value: value["model"].update(continuing_subword_prefix=prefix))  # fmt: skip
    with pytest.raises(UserError, match="does not go on with"):
        Tokenizer.load(tmp_path)
    with (tmp_path / "tokenizer.json").open("a") as file:
        file.write(" x")  # the engine reads the model before it sees that there is more
    with pytest.raises(UserError, match="not a tokenizer file"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("labels", [[], ["one"], ["one", "two", "three"]], ids=len)
def test_labels_that_do_not_fit_the_head(
    tmp_path: Path, labels: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    examples.classifier(tmp_path)
    assert command("predict", tmp_path, tmp_path / "classify.jsonl") == 0
    change(tmp_path / "tianci.json", lambda value: value["task"].update(labels=labels))
    assert command("predict", tmp_path, tmp_path / "classify.jsonl") == 2


@pytest.mark.parametrize("seal", ["", "0", "é", None])
def test_a_seal_that_is_none(tmp_path: Path, seal: str | None) -> None:
    file = tmp_path / "manifest.json"
    file.write_text(json.dumps({"files": {}, "sha256": seal}))
    with pytest.raises(UserError, match=r"manifest\.json is damaged"):
        read_sealed(file)


@pytest.mark.parametrize("name", ["num_layers", "num_decoder_layers"])
def test_a_t5_of_two_billion_layers(tmp_path: Path, name: str) -> None:
    examples.model("t5")(tmp_path)
    change(tmp_path / "config.json", lambda value: value.update({name: 2**31}))
    with pytest.raises(UserError, match="2147483648 cannot be built"):
        checkpoint.read(tmp_path)


def test_a_document_without_sentences(tmp_path: Path) -> None:
    """`prepare` writes none; a store that has one was made or changed by somebody else."""
    examples.store(tmp_path)
    file = next((tmp_path / "store").glob("train-*/documents.bin"))
    borders = np.frombuffer(file.read_bytes(), "<u4").copy()
    assert command("audit", tmp_path / "store", "--tokens", 200, "--length", 16) == 0
    borders[1] = 0
    file.write_bytes(borders.tobytes())
    assert command("audit", tmp_path / "store", "--tokens", 200, "--length", 16) == 2


@pytest.mark.parametrize(("value", "code"), [(None, 0), ([], 2), (7, 2)])
def test_a_pickled_model_without_a_name_of_its_activation(
    tmp_path: Path, value: object, code: int
) -> None:
    examples.pickled(tmp_path / "old")
    change(tmp_path / "old" / "config.json", lambda config: config.update(hidden_act=value))
    assert command("convert", tmp_path / "old", tmp_path / "new") == code


@pytest.mark.parametrize(
    ("value", "code", "read"), [(None, 0, 1e-12), (10**30, 0, 1e30), (10**400, 2, 0.0)]
)
def test_a_pickled_model_with_an_odd_number_for_its_norms(
    tmp_path: Path, value: int | None, code: int, read: float
) -> None:
    examples.pickled(tmp_path / "old")
    change(tmp_path / "old" / "config.json", lambda config: config.update(layer_norm_eps=value))
    assert command("convert", tmp_path / "old", tmp_path / "new") == code
    if not code:
        assert checkpoint.read(tmp_path / "new").model.config.norm_eps == read


def test_half_a_character_in_a_tokenizer(tmp_path: Path) -> None:
    examples.tokenizer("bpe")(tmp_path)
    file = tmp_path / "tokenizer.json"
    file.write_text(file.read_text().replace('"model"', '"\\ud800": 1, "model"'))
    assert command("tokenize", tmp_path, "a") == 2


@pytest.mark.parametrize("depth", [0, 1, 2, 5])
def test_cleaning_inside_of_sequences_of_sequences(tmp_path: Path, depth: int) -> None:
    # the library's sequence of one sequence has itself as its first step
    flat = [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]
    nested: dict[str, Any] = {"type": "Sequence", "normalizers": flat}
    for _ in range(depth):
        empty = {"type": "Sequence", "normalizers": []}
        nested = {"type": "Sequence", "normalizers": [empty, nested]}
    examples.tokenizer("bpe")(tmp_path)
    change(tmp_path / "tokenizer.json", lambda value: value.update(normalizer=nested))
    text = "Cafe\u0301 The CAT"
    surfaces = Tokenizer.load(tmp_path).encode([text])[0].surfaces(text)
    assert "".join(surfaces).replace(" ", "") == text.replace(" ", "")
    assert any(surface.endswith("e\u0301") for surface in surfaces)  # letter and mark together


@pytest.mark.parametrize("name", ["os.path", "..", ".x", "collections.abc"])
def test_a_module_that_is_no_task(tmp_path: Path, name: str) -> None:
    """A file may name what the user has imported, and Python itself has imported much."""
    examples.classifier(tmp_path)
    change(tmp_path / "tianci.json", lambda value: value["task"].update(name=name))
    assert command("predict", tmp_path, tmp_path / "classify.jsonl") == 2
    assert command("pretrain", "--corpus", tmp_path, "--objective", name, "--out", "x") == 2


@pytest.mark.parametrize("limit", [2**63, 10**12, 65])
def test_a_model_that_is_said_to_read_more_than_it_can(tmp_path: Path, limit: int) -> None:
    """One sentence about the model, not one about each row."""
    examples.classifier(tmp_path)
    change(tmp_path / "tianci.json", lambda value: value.update(limit=limit))
    assert command("predict", tmp_path, tmp_path / "classify.jsonl") == 2
