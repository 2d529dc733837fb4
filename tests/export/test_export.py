"""Bundles in onnxruntime against our own packed model: all families, all heads, ragged texts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

import torch  # noqa: E402

from tests.conftest import PARITY, ROOT  # noqa: E402
from tests.goals import tiny  # noqa: E402
from tests.parity.family import loud  # noqa: E402
from tests.serve.conftest import fine_tuned, write_adapter  # noqa: E402
from tianci import checkpoint, cli, files  # noqa: E402
from tianci.checkpoint import OWN, Checkpoint  # noqa: E402
from tianci.errors import UserError  # noqa: E402
from tianci.export import export, graph, parts  # noqa: E402
from tianci.export.parity import Bundle, largest_difference, likeness  # noqa: E402
from tianci.export.purpose import purpose_of  # noqa: E402
from tianci.goals.tasks import make_task  # noqa: E402
from tianci.models import family  # noqa: E402
from tianci.nn import eight_bits  # noqa: E402
from tianci.nn.task_heads import HeadPlan  # noqa: E402
from tianci.serve.predictor import load  # noqa: E402

FAMILIES = ("bert", "roberta", "albert", "distilbert")
TEXTS = ["天气", "我忘带伞了 the cat", "a b c the dog", "", "今天天气不错" * 4, "the dog runs"]


def made(kind: str, heads: dict[str, Any] | None = None, **sizes: Any) -> Checkpoint:
    """A small loud model of a family."""
    vocabulary = tiny.tokenizer()
    config = family(kind).Config(
        vocabulary=len(vocabulary), width=32, layers=3, heads=4, hidden=48, positions=48, **sizes
    )
    saved = checkpoint.create(kind, config)
    loud(saved.model, 1)
    saved.tokenizer = vocabulary
    saved.heads = heads or {}
    return saved


def with_task(kind: str, task: str, settings: dict[str, Any] | None = None) -> Checkpoint:
    saved, goal = made(kind), make_task(task, settings or {})
    head = checkpoint.fresh_task_head(kind, saved.model.config, goal.head_kind, goal.outputs)
    loud(head, 2)
    saved.heads = {goal.head_kind: head}
    saved.about = {"task": goal.as_table(), "limit": 32}
    if goal.labels:
        saved.name_labels(goal.labels)
    return saved


def planned(plan: HeadPlan, task: str, settings: dict[str, Any] | None = None) -> Checkpoint:
    saved, goal = made("bert"), make_task(task, settings or {})
    head = checkpoint.planned_head(saved.model.config, plan)
    loud(head, 3)
    saved.heads, saved.about = {OWN: head}, {"task": goal.as_table(), "limit": 32}
    return saved


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "sync", lambda path: None)  # nobody needs them after a power cut


LABELS = {"labels": ["x", "y", "z"]}
TAGS = {"labels": ["O", "B-A", "I-A"], "unit": "character", "decoding": "valid"}


@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize(
    ("task", "settings"),
    [("classify", LABELS), ("pair", LABELS), ("regress", {}), ("tag", TAGS), ("answer", {}),
     ("choose", {})],
)  # fmt: skip
def test_standard_heads(kind: str, task: str, settings: dict[str, Any], tmp_path: Path) -> None:
    checkpoint.write(tmp_path / "model", with_task(kind, task, settings))
    facts = export(tmp_path / "model", tmp_path / "bundle")
    assert facts["task"] == task and facts["largest_difference"] <= 1e-4
    assert facts["compared"] == 33 and facts["limit"] == 32
    PARITY.append((kind, f"onnx {task}", "our packed model", facts["largest_difference"]))
    known = json.loads((tmp_path / "bundle" / "export.json").read_text())
    assert known == json.loads(json.dumps(facts))
    files = {one.name for one in (tmp_path / "bundle").iterdir()}
    assert {"model.onnx", "tokenizer.json", "config.json", "export.json"} <= files
    reads = kind in ("bert", "albert")
    assert ("token_type_ids" in facts["inputs"]) == reads  # nobody else has segments


@pytest.mark.parametrize("kind", FAMILIES)
def test_vectors_and_masked_models(kind: str, tmp_path: Path) -> None:
    saved = made(kind)
    saved.heads = {"masked": checkpoint.fresh_head(kind, saved.model.config, "masked")}
    loud(saved.heads["masked"], 4)
    saved.heads["masked"].get_parameter("norm.weight").data *= 0.3  # logits as large as usual ones
    checkpoint.write(tmp_path / "model", saved)
    facts = export(tmp_path / "model", tmp_path / "masked")
    assert facts["says"] == "vocabulary" and facts["largest_difference"] <= 1e-4
    facts = export(tmp_path / "model", tmp_path / "vectors", what="embedding")
    assert facts["says"] == "vector" and facts["pooling"] == "mean" and not facts["normalize"]
    rows = [(ids, [0] * len(ids)) for ids in saved.tokenizer.ids(TEXTS, limit=48)]  # type: ignore[union-attr]
    said = Bundle(tmp_path / "vectors" / "model.onnx").says(rows, facts["pad"])
    expected = load(tmp_path / "model").embed(TEXTS)
    np.testing.assert_allclose(np.concatenate(said["sentence_embedding"]), expected, atol=1e-5)


@pytest.mark.parametrize("sharing", ["all", "attention", "feed-forward", "none"])
def test_shared_weights_are_written_once(sharing: str, tmp_path: Path) -> None:
    checkpoint.write(tmp_path / "model", made("albert", sharing=sharing))
    facts = export(tmp_path / "model", tmp_path / "bundle")
    assert facts["largest_difference"] <= 1e-4
    block, feed = 4 * 32 * 32, 2 * 32 * 48
    matrices = {"all": block + feed, "attention": block + 3 * feed,
                "feed-forward": 3 * block + feed, "none": 3 * (block + feed)}  # fmt: skip
    # matrices, and not much more: tables, biases, names
    assert 0 < facts["bytes"] - 4 * matrices[sharing] < 130_000


PLANS = {
    "mean-max": HeadPlan(outputs=3, pooling="mean-max"),
    "last-mean-max": HeadPlan(outputs=3, pooling="last-mean-max"),
    "attention": HeadPlan(outputs=3, pooling="attention", hidden=8),
    "mixed layers": HeadPlan(outputs=3, pooling="max", mixed_layers=4),
    "lstm": HeadPlan(outputs=3, pooling="last", lstm=12),
}


@pytest.mark.parametrize("name", PLANS)
def test_heads_of_our_own(name: str, tmp_path: Path) -> None:
    checkpoint.write(tmp_path / "model", planned(PLANS[name], "classify", LABELS))
    assert export(tmp_path / "model", tmp_path / "bundle")["largest_difference"] <= 1e-4


def test_tags_with_a_crf_bring_its_tables(tmp_path: Path) -> None:
    plan = HeadPlan(outputs=3, per_token=True, lstm=6, crf=True)
    saved = planned(plan, "tag", TAGS)
    checkpoint.write(tmp_path / "model", saved)
    facts = export(tmp_path / "model", tmp_path / "bundle")
    assert facts["largest_difference"] <= 1e-4 and facts["decoding"] == "valid"
    step = saved.heads[OWN].get_parameter("crf.step")
    np.testing.assert_allclose(facts["crf"]["step"], step.detach(), atol=1e-6)


def test_trained_vectors_have_length_1(tmp_path: Path) -> None:
    checkpoint.write(tmp_path / "model", fine_tuned("similar", {}))
    facts = export(tmp_path / "model", tmp_path / "bundle")
    assert facts["task"] == "similar" and facts["normalize"] and facts["pooling"] == "mean"
    model = load(tmp_path / "model")
    rows = [(ids, [0] * len(ids)) for ids in model.tokenizer.ids(TEXTS)]
    said = Bundle(tmp_path / "bundle" / "model.onnx").says(rows, facts["pad"])
    found = np.concatenate(said["sentence_embedding"])
    np.testing.assert_allclose(found, model.embed(TEXTS), atol=1e-5)


def test_adapters(tmp_path: Path) -> None:
    base = made("bert", {})
    checkpoint.write(tmp_path / "base", base)
    write_adapter(tmp_path / "small", tmp_path / "base", 5, 4)
    facts = export(tmp_path / "small", tmp_path / "bundle")
    assert facts["labels"] == ["a", "b", "c"] and facts["largest_difference"] <= 1e-4


def test_int8_is_smaller_and_close(tmp_path: Path) -> None:
    saved = made("bert")
    for parameter in saved.model.parameters():  # as quiet as trained weights are
        parameter.data *= 0.3 if parameter.dim() > 1 else 1.0
    checkpoint.write(tmp_path / "model", saved)
    plain = export(tmp_path / "model", tmp_path / "plain")
    facts = export(tmp_path / "model", tmp_path / "small", int8=True)
    assert facts["precision"] == "int8" and facts["kept"]["kind"] == "cosine"
    assert 0.98 <= facts["kept"]["value"] < 1 - 1e-9  # close, and really another model
    assert facts["bytes"] < 0.65 * plain["bytes"]  # so small a model is half names
    session = onnxruntime.InferenceSession(str(tmp_path / "small" / "model.onnx"))
    assert [one.type for one in session.get_inputs()] == ["tensor(int64)"] * 3


def test_what_int8_keeps_by_hand() -> None:
    saved = with_task("bert", "classify", LABELS)
    purpose = purpose_of(saved, Path("nowhere"))
    ours = {"logits": [np.array([[3.0, 1, 0]]), np.array([[0.0, 1, 0]])]}
    theirs = {"logits": [np.array([[9.0, 1, 0]]), np.array([[0.0, 1, 2]])]}
    found = likeness(purpose, ours, theirs)
    assert found == {"kind": "same labels", "value": 0.5, "at_least": 0.9}


def test_differences_by_hand() -> None:
    one, two = np.zeros((1, 2), np.float32), np.array([[0.0, 0.25]], np.float32)
    assert largest_difference({"x": [one, one]}, {"x": [one, two]}) == 0.25
    assert np.isnan(largest_difference({"x": [one, one]}, {"x": [one, two * np.nan]}))
    assert np.isnan(largest_difference({"x": [one]}, {"x": [one[None]]}))  # numpy would stretch it


def test_a_wrong_bundle_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.write(tmp_path / "model", with_task("bert", "classify", LABELS))
    monkeypatch.setattr(parts, "FAR", 0.0)  # padding is looked at
    with pytest.raises(UserError, match="outputs differ by .* nothing was written"):
        export(tmp_path / "model", tmp_path / "bundle")
    assert [one.name for one in tmp_path.iterdir()] == ["model"]
    monkeypatch.undo()
    monkeypatch.setattr(eight_bits, "MOST", 1)  # hardly a weight survives
    with pytest.raises(UserError, match="int8 keeps too little .* export it without --int8"):
        export(tmp_path / "model", tmp_path / "bundle", int8=True, what="embedding")
    assert [one.name for one in tmp_path.iterdir()] == ["model"]


def test_very_large_weights_go_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.write(tmp_path / "model", made("bert"))
    plain = export(tmp_path / "model", tmp_path / "plain")
    monkeypatch.setattr(graph, "PART_BYTES", 1000)
    facts = export(tmp_path / "model", tmp_path / "bundle")
    assert (tmp_path / "bundle" / "model.onnx.data").stat().st_size > 50_000
    assert facts["largest_difference"] <= 1e-4
    assert abs(facts["bytes"] - plain["bytes"]) < 60_000


@pytest.mark.parametrize(
    ("kind", "way"), [("gpt2", "token by token"), ("generate", "tianci serve")]
)
def test_models_that_write_are_refused(kind: str, way: str, tmp_path: Path) -> None:
    if kind == "generate":
        saved = fine_tuned("generate", {"longest": 6})
    else:
        vocabulary = tiny.tokenizer()
        config = family("gpt2").Config(
            vocabulary=len(vocabulary), width=32, layers=1, heads=2, hidden=64, positions=16
        )
        saved = checkpoint.create("gpt2", config, ("causal",))
        saved.tokenizer = vocabulary
    checkpoint.write(tmp_path / "model", saved)
    with pytest.raises(UserError, match=way):
        export(tmp_path / "model", tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint.write(tmp_path / "model", with_task("bert", "classify", LABELS))
    (tmp_path / "own.txt").write_text("天气\n\nthe cat\n", encoding="utf-8")

    def call(*more: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            cli.main(["export", str(tmp_path / "model"), "--out", str(tmp_path / "b"), *more])
        return int(stop.value.code or 0), *capsys.readouterr()

    code, _, said = call()
    assert code == 2 and said == "tianci: say which format: --onnx is the one there is\n"
    code, out, _ = call("--onnx", "--json", "--texts", str(tmp_path / "own.txt"))
    facts = json.loads(out)
    assert code == 0 and facts["compared"] == 37 and facts["largest_difference"] <= 1e-4
    assert facts["bytes"] == (tmp_path / "b" / "model.onnx").stat().st_size
    code, _, said = call("--onnx", "--what", "masked")
    assert code == 2 and "no masked-language-model head" in said


def test_the_script_of_the_docs(tmp_path: Path) -> None:
    """The 15 lines, as they stand there, say what our own model says."""
    saved = fine_tuned("classify", {"labels": ["-", "+"]})
    checkpoint.write(tmp_path / "model", saved)
    export(tmp_path / "model", tmp_path / "bundle")
    page = (ROOT / "docs" / "exporting.md").read_text(encoding="utf-8")
    script = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert script and len([line for line in script[1].splitlines() if line.strip()]) <= 15
    blocked = "import sys; sys.modules['tianci'] = sys.modules['torch'] = None\n"
    show = "import json; print(json.dumps([{k: float(v) for k, v in zip(about['labels'], "
    show += "row / row.sum())} for row in scores]))"
    done = subprocess.run(
        [sys.executable, "-c", blocked + script[1] + show],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    torch.set_num_threads(1)
    expected = load(tmp_path / "model")(["房间很干净", "The room was dirty."])
    for mine, other in zip(expected, found, strict=True):
        assert mine["scores"] == pytest.approx(other, abs=1e-5)
