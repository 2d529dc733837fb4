"""Every engine says what the modules say, alone and in company, and leaves what it cannot run."""

from __future__ import annotations

import copy
import sys
from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.engine.models import FAMILIES, alone, made
from tests.parity.family import ragged
from tianci import checkpoint, engine
from tianci.batch import Batch, Layout
from tianci.engine import quality
from tianci.engine.cut import cut, rounded
from tianci.errors import UserError
from tianci.models import family
from tianci.nn.adapter import Adapter
from tianci.nn.watching import Watching

ATOL = 1e-5  # of states with weights of the usual size
LOUD = 5e-5  # with loud ones, which make sharp attention out of the last digit
BATCH = ragged(3, 60, 40, count=12)


def needed(kind: str) -> None:
    for module in engine.NEEDS[kind]:
        pytest.importorskip(module, reason=f"the engine {kind} needs {module}")


@pytest.mark.parametrize("kind", engine.KINDS)
@pytest.mark.parametrize("name", FAMILIES)
def test_float32_is_that_of_the_modules(name: str, kind: str) -> None:
    needed(kind)
    model = made(name)
    model.engine = made_engine = engine.for_model(model, kind)
    made_engine.runner.most = 64  # several pieces
    with torch.inference_mode():
        ours, said = model.run_modules(BATCH), model(BATCH)
        assert said.layers is not ours.layers and len(said.layers) == len(ours.layers)
        torch.testing.assert_close(said.last, ours.last, atol=LOUD, rtol=0)
        torch.testing.assert_close(said.layers[1], ours.layers[1], atol=0, rtol=0)
        asked = torch.tensor([0, 3, BATCH.layout.tokens - 1, 50])
        some = model(replace(BATCH, asked=asked)).last
        torch.testing.assert_close(some[asked], ours.last[asked], atol=LOUD, rtol=0)
        assert some.isnan().any(1).sum() == BATCH.layout.tokens - 4


@pytest.mark.parametrize("kind", engine.KINDS)
def test_company_changes_nothing_in_float32(kind: str) -> None:
    needed(kind)
    model = made("bert", quiet=True)
    model.engine = engine.for_model(model, kind)
    with torch.inference_mode():
        assert (alone(model, BATCH) - model(BATCH).last).abs().max() <= ATOL


@pytest.mark.parametrize("kind", engine.KINDS)
@pytest.mark.parametrize("count", [1, 2])
def test_one_text_of_which_some_tokens_are_asked(kind: str, count: int) -> None:
    """One text alone may have a way of its own; 13 tokens are no round number."""
    needed(kind)
    model = made("bert")
    model.engine = engine.for_model(model, kind)
    batch = replace(Batch.of([list(range(1, 14))] * count), asked=torch.tensor([12, 0, 5]))
    with torch.inference_mode():
        ours, said = model.run_modules(batch).last[batch.asked], model(batch).last[batch.asked]
    torch.testing.assert_close(said, ours, atol=LOUD, rtol=0)


@pytest.mark.parametrize("kind", engine.KINDS)
def test_a_model_made_in_inference_mode_runs(kind: str) -> None:
    """Its weights do not count their changes."""
    needed(kind)
    with torch.inference_mode():
        model = made("bert")
        model.engine = engine.make(model, kind)
        said = model(BATCH).last
        assert model.engine.takes(BATCH)
        torch.testing.assert_close(said, model.run_modules(BATCH).last, atol=LOUD, rtol=0)


@pytest.mark.parametrize("kind", engine.KINDS)
@pytest.mark.parametrize("name", FAMILIES)
def test_int8_keeps_the_vectors_and_company_changes_nothing(name: str, kind: str) -> None:
    needed(kind)
    model = made(name, quiet=True)
    model.engine = engine.for_model(model, kind, int8=True)
    assert model.engine.kept is not None and model.engine.kept["cosine"] > quality.COSINE
    with torch.inference_mode():
        ours, said = model.run_modules(BATCH).last, model(BATCH).last
    assert torch.cosine_similarity(ours, said).min() > 0.99
    assert (ours - said).abs().max() > 1e-4  # it is int8
    assert (alone(model, BATCH) - said).abs().max() <= ATOL


@pytest.mark.parametrize("kind", engine.KINDS)
def test_a_loud_text_beside_it_changes_no_answer_in_int8(kind: str) -> None:
    """Scales of a whole batch would: the loud token has inputs a hundred times larger."""
    needed(kind)
    model = made("bert", quiet=True)
    with torch.no_grad():
        model.stack.blocks[0].attention.norm.bias[0] = 0.0
        model.embedding.token.weight[7] *= 100
    model.engine = engine.make(model, kind, int8=True)
    with torch.inference_mode():
        beside = model(Batch.of([[7] * 5, [3, 4, 5]])).last[5:]
        single = model(Batch.of([[3, 4, 5]])).last
    assert (beside - single).abs().max() <= ATOL


def test_int8_that_keeps_too_little_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = made("bert", quiet=True)
    with torch.no_grad():  # one input far above the others: a row of int8 has no room for the rest
        for block in model.stack.blocks:
            block.feed.part.up.bias[0] = 3000.0
            block.feed.part.down.weight[:, 0] = 0.0  # float32 does not even notice it
            block.feed.part.down.weight[:, 1:] *= 10  # what is lost is what matters
    with pytest.raises(UserError, match=r"mean cosine .* is 0\.\d+ on 12 texts, 0.997 is asked"):
        engine.for_model(model, "torch", int8=True)


def test_an_engine_that_is_wrong_for_a_text_alone_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needed("openvino")
    from tianci.engine import in_openvino

    right = in_openvino.InOpenVino.last

    def wrong(self: in_openvino.InOpenVino, batch: Batch) -> torch.Tensor:
        return right(self, batch) * (1.001 if len(batch.layout) == 1 else 1.0)

    monkeypatch.setattr(in_openvino.InOpenVino, "last", wrong)
    with pytest.raises(UserError, match="differs by .* use --engine torch"):
        engine.for_model(made("bert"), "openvino")


def test_a_wrong_engine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    needed("onnx")
    from tianci.engine import in_onnx

    right = in_onnx.InOnnx.last
    monkeypatch.setattr(in_onnx.InOnnx, "last", lambda self, batch: right(self, batch) * 1.001)
    with pytest.raises(UserError, match="differs by .* use --engine torch"):
        engine.for_model(made("bert"), "onnx")


@pytest.mark.parametrize("kind", engine.KINDS)
def test_adapters_are_run(kind: str) -> None:
    needed(kind)
    model = made("bert")
    for block in model.stack.blocks:
        block.attention.adapter, block.feed.adapter = Adapter(64, 8), Adapter(64, 8)
        for part in (block.attention.adapter, block.feed.adapter):
            nn.init.normal_(part.up.weight, std=0.3)
    model.engine = engine.for_model(model.eval(), kind)
    with torch.inference_mode():
        assert (model(BATCH).last - model.run_modules(BATCH).last).abs().max() <= LOUD


def test_what_an_engine_cannot_run_stays_with_the_modules() -> None:
    model, batch = made("bert"), ragged(3, 60, 40)
    model.engine = engine.make(model, "torch")
    taken = model.engine.takes
    with torch.inference_mode():
        assert taken(batch)
        assert not taken(replace(batch, layout=Watching(batch.layout)))
        lengths = batch.layout.lengths
        assert not taken(replace(batch, layout=Layout(lengths, prefix=[1] * len(lengths))))
        assert not taken(Batch.of([]))
        hook = model.embedding.register_forward_hook(lambda *_: None)  # as attribution does
        assert not taken(batch)
        hook.remove()
        assert taken(batch)
    assert not taken(batch)  # gradients are wanted
    model(batch).last.sum().backward()
    assert model.embedding.token.weight.grad is not None
    with torch.no_grad():
        assert taken(batch)
        assert not copy.deepcopy(model).engine
        model.train()
        assert not taken(batch)
        model.eval()
        model.stack.blocks[0].feed.part.up.weight.add_(1)  # the engine has the old ones
        assert not taken(batch)


def test_texts_that_are_too_long_are_refused_as_ever() -> None:
    model = made("bert")
    model.engine = engine.make(model, "torch")
    with torch.no_grad(), pytest.raises(UserError, match="49 tokens, but the model reads 48"):
        model(Batch.of([[1] * 49]))


def test_decoders_run_in_torch_and_say_so() -> None:
    config = family("gpt2").Config(vocabulary=30, width=16, layers=1, heads=2, hidden=32)
    saved = checkpoint.create("gpt2", config)
    assert engine.attach(saved, "torch") == engine.attach(saved, "auto") == "modules"
    for how in ({"kind": "onnx"}, {"kind": "torch", "int8": True}):
        with pytest.raises(UserError, match="a Gpt2 only runs in torch, in float32"):
            engine.attach(saved, **how)  # type: ignore[arg-type]
    with pytest.raises(UserError, match='unknown engine "onx"; did you mean "onnx"'):
        engine.attach(saved, "onx")


def test_a_missing_runtime_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(UserError, match=r"pip install 'tianci\[openvino\]'"):
        engine.for_model(made("bert"), "openvino")


def test_pieces_have_similar_lengths_once_they_have_enough_tokens() -> None:
    assert cut([3, 100, 90, 5, 80, 4], 1000, 1.25) == [[1, 2, 4], [3, 5, 0]]
    assert cut([3, 100, 90, 5, 80, 4], 1000, float("inf")) == [[1, 2, 4, 3, 5, 0]]
    assert cut([3, 100, 90], 150, float("inf")) == [[1], [2, 0]]
    assert [rounded(n) for n in (1, 64, 65, 250, 257, 1024)] == [4, 64, 72, 256, 288, 1024]


def test_half_a_point_may_be_lost() -> None:
    assert quality.check_score("accuracy", 0.9, 0.8955) == {"accuracy": 0.9}
    with pytest.raises(UserError, match=r"accuracy 0.8900, in float32 0.9000; 0.5 points are"):
        quality.check_score("accuracy", 0.9, 0.89)
    with pytest.raises(UserError):
        quality.check_score("accuracy", 0.9, float("nan"))
