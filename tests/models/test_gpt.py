"""GPT: what every family must keep, and that nothing behind a token changes it."""

from __future__ import annotations

from pathlib import Path

import torch

from tests.models.family import Check, check_family, loud_model
from tianci.batch import Batch, Layout
from tianci.models import gpt
from tianci.nn.past import Following, Past, Recording

CONFIG = gpt.Config(vocabulary=97, width=32, layers=3, heads=4, positions=60, pad=0)


@check_family
def test_family(check: Check, tmp_path: Path) -> None:
    check("gpt", CONFIG, tmp_path)


@torch.no_grad()
def test_the_future_changes_nothing() -> None:
    model = loud_model("gpt", CONFIG)
    one, other = model(Batch.of([[5, 6, 7, 8]])), model(Batch.of([[5, 6, 7, 9, 9]]))
    torch.testing.assert_close(one.last[:3], other.last[:3], rtol=0, atol=1e-6)
    assert (one.last[3] - other.last[3]).abs().max() > 1e-2


@torch.no_grad()
def test_token_by_token_equals_all_at_once() -> None:
    """With the keys and values kept, texts of different length side by side."""
    model, past = loud_model("gpt", CONFIG), Past(room=20)
    texts = [[5, 6, 7, 8, 9, 10], [11, 12, 13]]
    begun = Batch.of([text[:-2] for text in texts])
    model(Batch(begun.tokens, Recording(begun.layout, past)))
    for place in (-2, -1):
        step = Batch(torch.tensor([text[place] for text in texts]), Following(past))
        found = model(step).last
    whole = model(Batch.of(texts))
    expected = whole.last[Layout([6, 3]).last()]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
