"""Attention weights against transformers' own, with loud weights."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from tests.parity.family import loud, padded_inputs, ragged
from tianci import checkpoint
from tianci.batch import Batch
from tianci.models import albert, bert, gpt2, t5
from tianci.nn.watching import Watching

CONFIGS: dict[str, Any] = {
    "bert": bert.Config(vocabulary=50, width=32, layers=3, heads=4, hidden=48, positions=20),
    "albert": albert.Config(vocabulary=50, width=32, layers=3, heads=4, hidden=48, positions=20),
    "gpt2": gpt2.Config(vocabulary=50, width=32, layers=3, heads=4, hidden=48, positions=20),
    "t5": t5.Config(vocabulary=50, width=32, layers=3, heads=4, head_size=8, hidden=48),
}


@pytest.mark.parametrize("family", CONFIGS)
def test_weights_equal_transformers(family: str, tmp_path: Any) -> None:
    transformers = pytest.importorskip("transformers")
    made = checkpoint.create(family, CONFIGS[family], ())
    loud(made.model, 3)
    made.model.eval()
    checkpoint.write(tmp_path / "model", made)
    theirs = transformers.AutoModel.from_pretrained(tmp_path / "model", attn_implementation="eager")
    theirs = (theirs.encoder if family == "t5" else theirs).eval()
    batch = ragged(1, 50, 9)
    watching = Watching(batch.layout)
    with torch.inference_mode():
        seen = made.model(dataclasses.replace(batch, layout=watching)).last
        usual = made.model(batch).last
        segments = 2 if family in ("bert", "albert") else 0
        expected = theirs(**padded_inputs(batch, 0, segments), output_attentions=True).attentions
    assert torch.equal(seen, usual)  # watching changes nothing
    assert len(watching.weights) == len(expected) == 3
    for ours, layer in zip(watching.weights, expected, strict=True):
        for one, padded, length in zip(ours, layer, batch.layout.lengths, strict=True):
            assert one.shape == (4, length, length)
            torch.testing.assert_close(one, padded[:, :length, :length], atol=1e-5, rtol=0)


def test_a_prefix_is_seen_whole_and_the_rest_from_the_left() -> None:
    made = checkpoint.create("bert", CONFIGS["bert"], ())
    loud(made.model, 3)
    batch = Batch.of([[5, 6, 7, 8]])
    layout = batch.layout
    watching = Watching(type(layout)(layout.lengths, layout.device, [2]))
    with torch.inference_mode():
        made.model.eval()(dataclasses.replace(batch, layout=watching))
    for (one,) in watching.weights:
        seen = (one > 0).int()
        rows = torch.tensor([[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]])
        assert (seen == rows.int()).all()
        torch.testing.assert_close(one.sum(-1), torch.ones(4, 4))
