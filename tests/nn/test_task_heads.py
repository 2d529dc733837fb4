"""Heads of tasks and what they are made of, against hand-computed values."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.parity.family import loud, ragged
from tianci import checkpoint
from tianci.batch import Layout
from tianci.checkpoint import OWN
from tianci.errors import UserError
from tianci.models import bert
from tianci.nn.pooling import AttentionPooling, pool, pooled_width
from tianci.nn.task_heads import HeadPlan, LayerMix, PlannedHead, SequenceHead, TokenHead

X = torch.tensor([[1.0, 9.0], [3.0, -1.0], [-5.0, 2.0]])
LAYOUT = Layout([2, 1])
CONFIG = bert.Config(vocabulary=50, width=8, layers=2, heads=2, hidden=16, positions=12)

PLANS = [
    HeadPlan(3, pooling="mean", hidden=5),
    HeadPlan(2, pooling="attention", mixed_layers=3),
    HeadPlan(2, pooling="last-mean-max", lstm=4),
    HeadPlan(4, per_token=True, mixed_layers=3, hidden=6),
    HeadPlan(4, per_token=True, lstm=5, crf=True),
]


def test_concat_pooling_is_last_mean_max() -> None:
    assert pool(X, LAYOUT, "last-mean-max").tolist() == [[3, -1, 2, 4, 3, 9], [-5, 2] * 3]
    assert pooled_width("last-mean-max", 2) == 6
    assert [pooled_width(kind, 2) for kind in ("first", "attention", "mean-max")] == [2, 2, 4]
    with pytest.raises(UserError, match='did you mean "attention"'):
        pooled_width("atention", 2)


def test_attention_pooling_weighs_by_softmax_inside_each_sequence() -> None:
    part = AttentionPooling(2)
    part.query.weight.data = torch.tensor([[math.log(3) / 2, 0.0]])
    # scores ln 3 / 2 and 3 ln 3 / 2: weights 1/4 and 3/4
    assert part(X, LAYOUT).tolist() == [pytest.approx([2.5, 1.5]), pytest.approx([-5.0, 2.0])]


def test_attention_pooling_survives_large_scores() -> None:
    part = AttentionPooling(2)
    part.query.weight.data = torch.tensor([[1e4, 0.0]])
    assert part(X, LAYOUT).tolist() == [[3, -1], [-5, 2]]


def test_attention_pooling_has_the_gradients_of_a_softmax() -> None:
    torch.manual_seed(0)
    part = AttentionPooling(4).double()
    lengths = [3, 1, 5]
    x = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    target = torch.randn(3, 4, dtype=torch.float64)
    ours = (part(x, Layout(lengths)) * target).sum()
    rows = [part.query(one).softmax(0).T @ one for one in x.split(lengths)]
    theirs = (torch.cat(rows) * target).sum()
    wanted = (x, part.query.weight)
    for mine, other in zip(
        torch.autograd.grad(ours, wanted), torch.autograd.grad(theirs, wanted), strict=True
    ):
        torch.testing.assert_close(mine, other)


def test_layers_are_mixed_by_softmax_and_scaled() -> None:
    mix = LayerMix(2)
    layers = [torch.tensor([[4.0, 0.0]]), torch.tensor([[0.0, 8.0]])]
    assert mix(layers).tolist() == [[2.0, 4.0]]  # evenly at first
    mix.weights.data = torch.tensor([0.0, math.log(3)])
    mix.scale.data = torch.tensor([10.0])
    assert mix(layers)[0].tolist() == pytest.approx([10.0, 60.0])
    with pytest.raises(ValueError):
        mix([*layers, layers[0]])


def test_standard_heads_by_hand() -> None:
    token = TokenHead(2, 1, dropout=0.5).eval()
    token.linear.weight.data, token.linear.bias.data = torch.tensor([[1.0, 2.0]]), torch.ones(1)
    assert token([X * 100, X], LAYOUT).tolist() == [[20.0], [2.0], [0.0]]
    whole = SequenceHead(2, 1, dropout=0.5).eval()
    whole.pooler.dense.weight.data, whole.pooler.dense.bias.data = torch.eye(2), torch.zeros(2)
    whole.linear.weight.data, whole.linear.bias.data = torch.tensor([[1.0, 2.0]]), torch.zeros(1)
    expected = [math.tanh(1) + 2 * math.tanh(9), math.tanh(-5) + 2 * math.tanh(2)]
    assert whole([X], LAYOUT)[:, 0].tolist() == pytest.approx(expected)


def test_dropout_is_there_in_training_only() -> None:
    token = TokenHead(64, 1, dropout=0.5)
    token.linear.weight.data.fill_(1.0)
    x, layout = torch.ones(8, 64), Layout([8])
    assert len(token.train()([x], layout).unique()) > 1
    assert len(token.eval()([x], layout).unique()) == 1


def test_a_crf_needs_labels_of_tokens() -> None:
    with pytest.raises(UserError, match="a CRF needs a label per token"):
        PlannedHead(8, HeadPlan(3, crf=True))


def said(model: checkpoint.Checkpoint, seed: int = 0) -> Tensor:
    batch = ragged(seed, 50, 12)
    with torch.no_grad():
        states = model.model.eval()(batch)
        out: Tensor = model.heads[OWN].eval()(states.layers, states.layout)
    return out


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.pooling + str(plan.lstm))
def test_own_heads_come_back_from_disk(plan: HeadPlan, tmp_path: Path) -> None:
    model = checkpoint.create("bert", CONFIG)
    model.heads[OWN] = checkpoint.planned_head(CONFIG, plan)
    loud(model.model, 0)
    loud(model.heads[OWN], 1)
    checkpoint.write(tmp_path / "model", model)
    back = checkpoint.read(tmp_path / "model")
    head = back.heads[OWN]
    assert isinstance(head, PlannedHead) and head.plan == plan
    assert torch.equal(said(back), said(model))
    state = head.state_dict()
    assert {"crf.step", "crf.begin", "crf.end"} <= set(state) or not plan.crf
    for name, value in model.heads[OWN].state_dict().items():
        assert torch.equal(state[name], value)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.pooling + str(plan.lstm))
def test_own_heads_do_not_see_their_neighbours(plan: HeadPlan) -> None:
    torch.manual_seed(0)
    head = PlannedHead(8, plan).double().eval()
    loud(head, 1)
    lengths = [4, 1, 6]
    layers = [torch.randn(11, 8, dtype=torch.float64) for _ in range(plan.mixed_layers or 1)]
    together = head(layers, Layout(lengths))
    parts = list(zip(*(layer.split(lengths) for layer in layers), strict=True))
    alone = torch.cat([head(list(one), Layout([len(one[0])])) for one in parts])
    torch.testing.assert_close(together, alone)
