"""T5 against transformers: both halves, the head, gradients, both directions, loud weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.conftest import PARITY
from tests.parity import family
from tests.parity.family import Heads, heads_of, named
from tianci import checkpoint
from tianci.batch import Batch
from tianci.files import read_json
from tianci.models import t5

transformers = pytest.importorskip("transformers", reason="parity needs the dev extra")

# vocabulary, width, layers, decoder layers, heads, size of a head, hidden, positions
CONFIGS = [
    t5.Config(57, 24, 2, 2, 3, 8, 40, 40, buckets=8, distance=20),
    t5.Config(31, 8, 1, 3, 2, 3, 16, 20, feed="gated-gelu"),
    t5.Config(101, 32, 3, 1, 8, 5, 64, 33, buckets=12, distance=9, norm_eps=1e-3, scaled=False),
]
NEWER = t5.Config(57, 24, 2, 3, 3, 5, 40, 30, feed="gated-gelu", tied=False, scaled=False)
GENERATION = frozenset({"generation"})


@pytest.fixture(autouse=True)
def norm_in_full_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers takes the mean of squares in float32 even in float64; only rounding differs."""
    from transformers.models.t5.modeling_t5 import T5LayerNorm

    def forward(self: Any, x: Tensor) -> Tensor:
        mean = x.pow(2).mean(-1, keepdim=True)
        scaled: Tensor = self.weight * (x * torch.rsqrt(mean + self.variance_epsilon))
        return scaled

    monkeypatch.setattr(T5LayerNorm, "forward", forward)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"L{c.layers}+{c.decoder_layers}")
@pytest.mark.parametrize("heads", heads_of("t5"), ids=named)
def test_parity(heads: Heads, config: t5.Config, seed: int, tmp_path: Path) -> None:
    family.check_parity("t5", config, heads, seed, tmp_path)


@pytest.mark.parametrize("seed", [0, 1])
def test_parity_of_a_table_of_its_own(seed: int, tmp_path: Path) -> None:
    """v1.1: no scale, lm_head apart, as its weights say even where transformers' file denies it."""
    ours = family.loud_checkpoint("t5", NEWER, GENERATION, seed)
    checkpoint.write(tmp_path / "ours", ours)
    theirs = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path / "ours")
    assert not torch.equal(theirs.lm_head.weight, theirs.shared.weight)
    theirs.save_pretrained(tmp_path / "theirs")
    batch = family.batch_for(NEWER, seed)
    family.compare("t5", "transformers loads ours", ours, theirs, batch)
    # transformers 5 writes true whatever the file said that it was read from
    assert read_json(tmp_path / "theirs" / "config.json")["tie_word_embeddings"] is True
    again = checkpoint.read(tmp_path / "theirs")
    assert again.model.config == NEWER
    theirs.zero_grad()
    family.compare("t5", "we load transformers'", again, theirs, batch)
    once_more = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path / "theirs")
    assert torch.equal(once_more.lm_head.weight.double(), theirs.lm_head.weight)


def test_parity_in_float32(tmp_path: Path) -> None:
    family.check_float32("t5", CONFIGS[0], GENERATION, tmp_path)


@pytest.mark.parametrize("feed", ["relu", "gated-gelu"])
def test_parity_of_the_encoder_alone(feed: str, tmp_path: Path) -> None:
    """Our encoder in theirs, the encoder of a whole model in theirs, theirs in ours."""
    for config in (
        replace(CONFIGS[0], feed=feed),
        replace(CONFIGS[0], feed=feed, decoder_layers=0),
    ):
        ours = family.loud_checkpoint("t5", config, frozenset(), 0)
        folder = tmp_path / str(config.decoder_layers)
        checkpoint.write(folder, ours)
        theirs, report = transformers.T5EncoderModel.from_pretrained(
            folder, output_loading_info=True
        )
        assert not report["missing_keys"]
        theirs.save_pretrained(folder / "theirs")
        batch = replace(family.batch_for(config, 1), decoder=None)
        read = checkpoint.read(folder / "theirs")
        assert read.model.config == replace(config, decoder_layers=0)
        assert read_json(folder / "theirs" / "config.json")["architectures"] == ["T5EncoderModel"]
        theirs.double().eval()
        for model in (ours.model, read.model):
            model.double().eval()
            inputs = family.padded_inputs(batch, 0, 0)
            expected = theirs(**inputs, output_hidden_states=True).hidden_states
            layers = list(model(batch).layers)
            family.same_layers(
                "t5", "T5EncoderModel", layers, list(expected), batch.layout, family.EXACT
            )


def no_bias(model: t5.T5) -> None:
    assert model.decoder is not None
    model.decoder.bias.table.weight.data.zero_()


def with_scale(model: t5.T5) -> None:
    part = model.encoder.blocks[0].attention.part
    part.qkv.weight.data[:24] *= 8**-0.5


def sees_the_future(model: t5.T5) -> None:
    assert model.decoder is not None
    model.decoder.bias.causal = False


def other_source(model: t5.T5) -> None:
    model.encoder.norm = nn.Identity()


def other_activation(model: t5.T5) -> None:
    model.encoder.blocks[1].feed.part.activation = F.gelu


FAULTS = [no_bias, with_scale, sees_the_future, other_source, other_activation]


@pytest.mark.parametrize("plant", FAULTS)
def test_a_fault_is_seen(plant: Callable[[t5.T5], None], tmp_path: Path) -> None:
    family.check_fault_is_seen("t5", CONFIGS[0], GENERATION, plant, tmp_path)


@pytest.mark.parametrize("size", list(t5.PRESETS))
def test_parameters_equal_transformers(size: str) -> None:
    config = t5.PRESETS[size]
    ours, theirs = family.parameters_of("t5", config, GENERATION)
    # transformers ties the table of v1.1 until a file brings its own
    assert ours == theirs + (0 if config.tied else config.vocabulary * config.width)
    known = {"small": 60_506_624, "base": 222_903_552, "large": 737_668_096}
    assert {**known, "small-v1.1": 76_961_152}.get(size, ours) == ours


def test_loss_is_transformers(tmp_path: Path) -> None:
    """Their shift to the right, their cross entropy over the targets."""
    from tianci.goals.objectives.span import Span

    ours = family.loud_checkpoint("t5", CONFIGS[0], GENERATION, 0)
    checkpoint.write(tmp_path / "model", ours)
    theirs = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path / "model").eval()
    source, target = [5, 6, 7, 8], [9, 10, 11, 1]
    batch = Batch.of([source])
    batch = replace(batch, decoder=Batch.of([[0, *target]]))  # 0 begins
    ours.model.eval()
    found = Span().loss(ours.model, ours.heads, ours.model(batch), batch)
    expected = theirs(torch.tensor([source]), labels=torch.tensor([target])).loss
    assert Span().count(batch) == 4
    PARITY.append(("t5", "loss", "transformers", abs(found.total.item() / 4 - expected.item())))
    assert found.total.item() / 4 == pytest.approx(expected.item(), abs=1e-5)
