"""A quick start leaves nothing out that an answer needs: same answers, lighter process."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import tianci
from tests.goals import tiny
from tests.matrix.families import SIZES
from tests.models.family import language_head
from tianci import checkpoint, cli
from tianci.engine import NEEDS
from tianci.models import family

# runs commands one after the other in a fresh process, then tells which modules came with them
CHILD = """
import json, sys
from tianci import cli
for call in json.loads(sys.argv[1]):
    try:
        cli.main(call)
    except SystemExit as stop:
        assert not stop.code, (call, stop.code)
print(json.dumps(sorted(sys.modules)))
import torch._meta_registrations  # the real one can still be had
print((torch.empty(2, 3, device="meta") @ torch.empty(3, 4, device="meta")).shape == (2, 4))
"""
# nobody who asks for a word should wait for these
HEAVY = (
    *("sklearn", "scipy", "transformers", "pandas", "matplotlib", "onnx", "onnxruntime"),
    *("torch._dynamo", "torch._inductor", "torch.onnx", "torch._decomp", "torch._refs", "sympy"),
    *("tianci.train.pretrain", "tianci.tune.run", "starlette"),
)


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """One call per family, of the command that its models are for; one of each other command."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "text.txt").write_text("今天天气不错\n我们有雨伞\n", encoding="utf-8")
    text, made = str(folder / "text.txt"), []
    for number, (kind, sizes) in enumerate(SIZES.items()):
        torch.manual_seed(number)
        tokenizer = tiny.tokenizer()
        config = family(kind).Config(**sizes, vocabulary=len(tokenizer))
        model = checkpoint.create(kind, config, (language_head(kind),))
        model.tokenizer = tokenizer
        place = str(folder / kind)
        checkpoint.write(place, model)
        writes = kind in ("gpt", "gpt2", "t5")
        if writes:
            made.append(["generate", place, "今天天气", "--max-new-tokens", "4", "--json"])
        else:
            made.append(["fill", place, "今天天气[MASK]错", "--json"])
    bert, gpt2 = str(folder / "bert"), str(folder / "gpt2")
    return [
        *made,
        ["score", bert, "今天天气不错", "--json"],
        ["rank", gpt2, "今天", "天气", "雨伞", "--json"],
        ["embed", bert, text, "--out", str(folder / "x.npy"), "--json"],
        ["search", bert, text, "天气", "--json"],
    ]


def test_the_same_answers_from_a_lighter_process(
    calls: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    child = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(calls)],
        capture_output=True, text=True, check=False, timeout=120, encoding="utf-8",
    )  # fmt: skip
    assert child.returncode == 0, child.stderr[-2000:]
    *answers, modules, works = child.stdout.splitlines()
    for call in calls:
        with pytest.raises(SystemExit) as stop:
            cli.main(call)
        assert not stop.value.code
    assert answers == capsys.readouterr().out.splitlines()
    assert works == "True"
    assert not set(HEAVY) & set(json.loads(modules))


@pytest.mark.parametrize("engine", ["auto", "openvino", "onnx"])
def test_engines_in_a_lighter_process(
    calls: list[list[str]], engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are tried before they are used, which must not need what was left out."""
    for module in NEEDS.get(engine, ()):
        pytest.importorskip(module)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    embed = next(call for call in calls if call[0] == "embed")[:-3]
    wanted = tianci.load(embed[1]).embed(Path(embed[2]).read_text(encoding="utf-8").splitlines())
    for number, more in enumerate(([], ["--int8"])):
        out = str(tmp_path / f"{number}.npy")
        run = [*embed, "--out", out, "--engine", engine, *more]
        child = subprocess.run(
            [sys.executable, "-m", "tianci", *run], capture_output=True, text=True, timeout=120
        )
        assert child.returncode == 0, child.stderr[-2000:]
        np.testing.assert_allclose(np.load(out), wanted, atol=0.1 if more else 1e-5)


def test_mapped_weights_are_the_same_and_the_file_cannot_be_written_through_them(
    calls: list[list[str]],
) -> None:
    folder = Path(calls[0][1])
    before = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    mapped, copied = checkpoint.read(folder, mapped=True), checkpoint.read(folder)
    states = [{**one.model.state_dict(), **one.heads["masked"].state_dict()} for one in
              (mapped, copied)]  # fmt: skip
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    for tensor in states[0].values():
        tensor.add_(1.0)
    assert hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest() == before


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16])
def test_one_number_that_is_not_finite_is_seen(bad: float, kind: torch.dtype) -> None:
    tensor = torch.randn(300, 7).to(kind)
    assert checkpoint._finite(tensor)
    assert checkpoint._finite(torch.empty(0, 3, dtype=kind))
    tensor[211, 3] = bad
    assert not checkpoint._finite(tensor)
    assert not checkpoint._finite(torch.zeros(3, dtype=torch.int64))
