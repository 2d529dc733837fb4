"""The prefix mask and the remembered past: against attention by hand, with and without dropout."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.parity.family import loud
from tianci.batch import Batch, Layout
from tianci.models import bert
from tianci.nn import attention
from tianci.nn.past import Following, Past, Recording
from tianci.nn.patterns import Causal, Full

LENGTHS, PREFIX = [5, 5, 3, 1], [2, 5, 0, 1]


def test_layout_knows_how_far_a_token_sees() -> None:
    layout = Layout([4, 3], prefix=[2, 3])
    assert layout.reach.tolist() == [1, 1, 2, 3, 2, 2, 2]
    assert layout.to("cpu") is layout and layout.to("meta").prefix == (2, 3)
    assert layout.only([1]).lengths == (3,) and layout.only([1]).prefix == (3,)
    assert Layout([4, 3]).only([1, 0]).lengths == (3, 4) and Layout([4]).prefix is None
    with pytest.raises(ValueError, match="1 prefixes for 2 sequences"):
        Layout([4, 3], prefix=[1])


def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    outputs = []
    for a, b, c, size in zip(*(x.split(LENGTHS) for x in (q, k, v)), PREFIX, strict=True):
        scores = torch.einsum("qhd,khd->hqk", a, b) / math.sqrt(q.shape[-1])
        for i in range(len(a)):
            for j in range(len(a)):
                if j > i and j >= size:
                    scores[:, i, j] = -math.inf
        outputs.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1), c))
    return torch.cat(outputs)


@pytest.mark.parametrize("pattern", [Full(), Causal()], ids=["full", "causal"])
def test_prefix_attention_by_hand(pattern: Full | Causal) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(sum(LENGTHS), 2, 4, requires_grad=True) for _ in range(3))
    ours = attention.attend(q, k, v, Layout(LENGTHS, prefix=PREFIX), pattern)
    expected = by_hand(q, k, v)
    torch.testing.assert_close(ours, expected, atol=1e-6, rtol=1e-5)
    weights = torch.randn_like(ours)
    mine = torch.autograd.grad((ours * weights).sum(), (q, k, v), retain_graph=True)
    theirs = torch.autograd.grad((expected * weights).sum(), (q, k, v))
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_dropout_looks_no_further() -> None:
    """With dropout another function computes; what must not be seen has no influence there."""
    torch.manual_seed(1)
    layout = Layout(LENGTHS, prefix=PREFIX)
    q, k, v = (torch.randn(sum(LENGTHS), 2, 4, requires_grad=True) for _ in range(3))
    out = attention.attend(q, k, v, layout, Full(), dropout=0.3)
    for i in range(layout.tokens):
        (influence,) = torch.autograd.grad(out[i].sum(), v, retain_graph=True)
        seen = influence.abs().sum((1, 2)) > 0
        same = layout.sequence == layout.sequence[i]
        allowed = same & (layout.position <= layout.reach[i])
        assert not (seen & ~allowed).any()
    # nearly no dropout: the written-out way and SDPA agree
    near = attention.attend(q, k, v, layout, Full(), dropout=1e-6)
    torch.testing.assert_close(near, by_hand(q, k, v), atol=1e-4, rtol=1e-4)


@pytest.fixture
def model() -> bert.Bert:
    config = bert.Config(vocabulary=20, width=16, layers=3, heads=2, hidden=24, positions=12)
    made = bert.build(config).eval()
    loud(made, 0)
    return made


def prefixed(ids: list[list[int]], sources: list[int]) -> Batch:
    segments = [[0] * s + [1] * (len(i) - s) for i, s in zip(ids, sources, strict=True)]
    batch = Batch.of(ids, segments)
    layout = Layout(batch.layout.lengths, prefix=sources)
    return Batch(batch.tokens, layout, batch.segments)


@torch.inference_mode()
def test_no_leak_from_the_target(model: bert.Bert) -> None:
    """Another target token changes no state of the source, and none of the target before it."""
    one = model(prefixed([[3, 4, 5, 6, 7, 8]], [3]))
    other = model(prefixed([[3, 4, 5, 6, 9, 8]], [3]))
    for a, b in zip(one.layers, other.layers, strict=True):
        assert torch.equal(a[:4], b[:4])
    assert (one.last[4:] - other.last[4:]).abs().max() > 1e-2
    # and the source does see itself: its first token feels its last
    other = model(prefixed([[3, 4, 9, 6, 7, 8]], [3]))
    assert (one.last[0] - other.last[0]).abs().max() > 1e-2


@torch.inference_mode()
def test_token_by_token_is_the_same_as_at_once(model: bert.Bert) -> None:
    texts, sources = [[3, 4, 5, 6, 7, 8, 9], [5, 6, 7, 3, 2, 1], [9, 8, 4, 4]], [4, 3, 1]
    whole = model(prefixed(texts, sources))
    past = Past(room=8)
    start = prefixed([t[:s] for t, s in zip(texts, sources, strict=True)], sources)
    model(Batch(start.tokens, Recording(start.layout, past), start.segments))
    assert past.sizes.tolist() == sources and len(past.kept) == 3
    for step in range(3):
        if step == 1:  # the order may change, and a text may be followed twice
            past.choose([2, 0, 1, 0])
            texts, places = [texts[n] for n in (2, 0, 1, 0)], [2, 0, 1, 0]
            sources = [sources[n] for n in (2, 0, 1, 0)]
        elif step == 0:
            places = [0, 1, 2]
        more = torch.tensor([t[s + step] for t, s in zip(texts, sources, strict=True)])
        states = model(Batch(more, Following(past), torch.ones_like(more)))
        starts = whole.layout.starts[places]
        at = starts + torch.tensor(sources) + step
        torch.testing.assert_close(states.last, whole.last[at], atol=1e-5, rtol=1e-5)
