"""Which engine is chosen: by measurement, clearly, once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.engine.models import made
from tianci.engine import choice
from tianci.engine.choice import Row, Sizes, choose, chosen, measure


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tianci" / "engines.json"


def row(engine: str, speed: float) -> Row:
    return Row(engine, False, {"16 tokens": 1.0} if speed else {}, speed, "")


def test_torch_stays_unless_another_is_clearly_faster() -> None:
    assert choose([row("torch", 1.0), row("openvino", 1.14), row("onnx", 0.9)]) == "torch"
    assert choose([row("torch", 1.0), row("openvino", 1.2), row("onnx", 1.3)]) == "onnx"
    assert choose([row("torch", 1.0), row("openvino", 0.0), row("onnx", 0.0)]) == "torch"
    assert choose([row("torch", 0.0), row("openvino", 1.0), row("onnx", 0.0)]) == "openvino"


def test_the_choice_is_remembered_for_the_machine_and_the_sizes(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def measured(sizes: Sizes, int8: bool) -> list[Row]:
        asked.append((sizes.width, int8))
        return [row("torch", 1.0), row("onnx", 2.0)]

    monkeypatch.setattr(choice, "measure", measured)
    model = made("bert")
    assert chosen(model) == chosen(model) == chosen(made("roberta")) == "onnx"
    assert asked == [(64, False)]
    chosen(model, int8=True)
    monkeypatch.setattr(choice, "machine", lambda: {"name": "another"})
    chosen(model)
    assert asked == [(64, False), (64, True), (64, False)]
    kept = json.loads(cache.read_text())
    assert len(kept) == 3 and {one["engine"] for one in kept.values()} == {"onnx"}
    cache.write_text("[not ours")
    chosen(model)
    assert len(asked) == 4 and len(json.loads(cache.read_text())) == 1


def test_a_home_that_cannot_be_written_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(choice, "measure", lambda sizes, int8: [row("torch", 1.0)])
    assert chosen(made("bert")) == "torch"


@pytest.mark.parametrize("int8", [False, True])
def test_measuring_tells_times_and_parity_of_all_engines(
    int8: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = measure(Sizes(64, 4, 128), int8, rounds=1)
    assert [one.engine for one in rows] == ["torch", "openvino", "onnx"]
    first = rows[0]
    assert first.speed == pytest.approx(1.0) and set(first.milliseconds) == set(choice.CASES)
    assert ("cosine" if int8 else "difference") in first.note
    for one in rows[1:]:  # those whose extra is there ran, the others say what they need
        assert bool(one.milliseconds) == ("pip install" not in one.note), one


def test_an_engine_that_fails_or_differs_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("openvino")
    from tianci.engine import in_onnx, in_openvino

    def fail(self: object, *args: object) -> None:
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(in_openvino.InOpenVino, "__init__", fail)
    monkeypatch.setattr(
        in_onnx.InOnnx, "last", lambda self, batch: torch.ones(batch.layout.tokens, 64)
    )
    rows = {one.engine: one for one in measure(Sizes(64, 4, 128), rounds=1)}
    assert "no such kernel" in rows["openvino"].note and not rows["openvino"].milliseconds
    assert "differs" in rows["onnx"].note and not rows["onnx"].milliseconds
