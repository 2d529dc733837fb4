"""What every packed model must keep: neighbours, order and batch size never change a result, what
is saved comes back, and it learns. A family's test runs all CHECKS."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.parity.family import batch_for, loud, ragged
from tianci import checkpoint
from tianci.batch import Batch
from tianci.errors import UserError
from tianci.models import family
from tianci.models.base import Model
from tianci.nn.patterns import Biased

Check = Callable[[str, Any, Path], None]


def language_head(kind: str) -> str:
    """The family's own pre-training head."""
    known = family(kind).HEADS
    return next(name for name in ("masked", "causal", "generation") if name in known)


def loud_model(kind: str, config: Any) -> Model:
    model: Model = family(kind).build(config).eval()
    loud(model, 0)
    return model


def rows(batch: Batch) -> list[tuple[list[int], list[int]]]:
    assert batch.segments is not None
    lengths = list(batch.layout.lengths)
    ids, segments = batch.tokens.split(lengths), batch.segments.split(lengths)
    return [(i.tolist(), s.tolist()) for i, s in zip(ids, segments, strict=True)]


@torch.no_grad()
def packed_equals_one_by_one_and_any_order(kind: str, config: Any, folder: Path) -> None:
    model = loud_model(kind, config)
    batch = ragged(1, config.vocabulary, 40, count=9)
    together = model(batch).last.split(list(batch.layout.lengths))
    texts = rows(batch)
    for (ids, segments), row in zip(texts, together, strict=True):
        alone = model(Batch.of([ids], [segments])).last
        torch.testing.assert_close(row, alone, atol=1e-5, rtol=0)
    order = [4, 0, 8, 2, 6, 1, 7, 3, 5]
    shuffled = Batch.of([texts[i][0] for i in order], [texts[i][1] for i in order])
    mixed = model(shuffled).last.split(list(shuffled.layout.lengths))
    for place, i in enumerate(order):
        torch.testing.assert_close(mixed[place], together[i], atol=1e-5, rtol=0)


@torch.no_grad()
def packed_equals_padded_with_a_mask(kind: str, config: Any, folder: Path) -> None:
    """The same model with attention done the usual way: padded, with a mask."""
    from tianci.nn import attention

    model, batch = loud_model(kind, config), ragged(2, config.vocabulary, 30)
    packed = model(batch).last

    def padded(q, k, v, layout, pattern, dropout=0.0):  # type: ignore[no-untyped-def]
        q, k, v = (layout.pad(x).transpose(1, 2) for x in (q, k, v))
        mask = layout.mask[:, None, None, :]
        if pattern.causal:
            mask = mask & torch.ones(layout.longest, layout.longest, dtype=torch.bool).tril()
        bias = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
        biased = isinstance(pattern, Biased)
        if biased:
            bias = bias + pattern.bias(layout.longest, layout.longest)
        out = F.scaled_dot_product_attention(q, k, v, bias, scale=1.0 if biased else None)
        return layout.pack(out.transpose(1, 2))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "attend", padded)
        torch.testing.assert_close(model(batch).last, packed, atol=1e-5, rtol=0)


@torch.no_grad()
def nothing_one_token_and_the_longest(kind: str, config: Any, folder: Path) -> None:
    model, limit, width = loud_model(kind, config), config.positions, config.width
    nothing = model(Batch.of([]))
    assert nothing.last.shape == (0, width) and nothing.pooled("mean").shape == (0, width)
    assert model(Batch.of([[5]])).last.isfinite().all()
    assert model(Batch.of([[5] * limit])).last.shape == (limit, width)
    with pytest.raises(UserError, match=f"{limit + 1} tokens, but the model reads {limit}"):
        model(Batch.of([[5] * (limit + 1)]))


def segments_may_be_left_out(kind: str, config: Any, folder: Path) -> None:
    """No segments means all first."""
    model, batch = loud_model(kind, config), ragged(3, config.vocabulary, 12)
    zeros = dataclasses.replace(batch, segments=torch.zeros_like(batch.tokens))
    without = dataclasses.replace(batch, segments=None)
    assert torch.equal(model(zeros).last, model(without).last)


def layers_and_depth(kind: str, config: Any, folder: Path) -> None:
    """All layers come out and can be mixed; `depth` has every parameter exactly once."""
    model = loud_model(kind, config)
    states = model(ragged(3, config.vocabulary, 12))
    assert len(states.layers) == config.layers + 1
    weights = torch.zeros(config.layers + 1)
    weights[0], weights[-1] = 0.5, 2.0
    expected = 0.5 * states.layers[0] + 2.0 * states.last
    torch.testing.assert_close(states.mixed(weights), expected)
    found = [id(p) for part in model.depth() for p in part.parameters()]
    assert len(found) == len(set(found)) and set(found) == {id(p) for p in model.parameters()}


def first_layers_can_be_kept(kind: str, config: Any, folder: Path) -> None:
    """Two layers say what the first two of all layers say, also after saving."""
    model = loud_model(kind, config)
    batch = batch_for(config, 4)
    whole = model(batch).layers
    stack = getattr(model, "stack", None) or model.get_submodule("encoder")
    norm = getattr(stack, "norm", torch.nn.Identity())  # over the last one
    model.keep_layers(2)
    assert model.config == dataclasses.replace(config, layers=2)
    cut = checkpoint.Checkpoint(kind, model)
    checkpoint.write(folder / "cut", cut)
    for version in (model, checkpoint.read(folder / "cut").model):
        layers = version(batch).layers
        assert len(layers) == 3 and torch.equal(layers[-1], norm(whole[2]))
    for count in (0, 3):
        with pytest.raises(UserError, match=f"--layers is {count}, but the model has 2 layers"):
            model.keep_layers(count)


def dropout_only_in_training(kind: str, config: Any, folder: Path) -> None:
    model = loud_model(kind, dataclasses.replace(config, dropout=0.1))
    batch = ragged(4, config.vocabulary, 20)
    assert torch.equal(model(batch).last, model(batch).last)
    model.train()
    assert not torch.equal(model(batch).last, model(batch).last)


def saved_and_loaded_exactly(kind: str, config: Any, folder: Path) -> None:
    made = checkpoint.create(kind, config, (language_head(kind),))
    loud(made.model, 1)
    loud(made.heads[language_head(kind)], 2)
    checkpoint.write(folder / "one", made)
    again = checkpoint.read(folder / "one")
    checkpoint.write(folder / "two", again)
    assert again.model.config == config and again.parameter_count == made.parameter_count
    one, two = (folder / name / "model.safetensors" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    batch = ragged(5, config.vocabulary, 9)
    assert torch.equal(made.model.eval()(batch).last, again.model(batch).last)


def one_step_lowers_the_loss(kind: str, config: Any, folder: Path) -> None:
    torch.manual_seed(0)
    made = checkpoint.create(kind, config, (language_head(kind),))
    model, head = made.model.eval(), made.heads[language_head(kind)].eval()
    batch = ragged(5, config.vocabulary, 20)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.005)

    def loss() -> torch.Tensor:
        logits = head(model(batch).last, model.token_table())
        return F.cross_entropy(logits, batch.tokens)

    before = loss()
    before.backward()
    assert all(p.grad is not None for p in model.parameters())
    optimizer.step()
    assert loss() < before - 1e-3


def compiles_to_one_graph(kind: str, config: Any, folder: Path) -> None:
    model, batch = loud_model(kind, config), ragged(6, config.vocabulary, 10)
    assert len(batch.layout.position) and batch.layout.groups  # made with the data, not traced
    explained = torch._dynamo.explain(model)(batch)
    assert explained.graph_count == 1 and explained.graph_break_count == 0


CHECKS: list[Check] = [
    packed_equals_one_by_one_and_any_order,
    packed_equals_padded_with_a_mask,
    nothing_one_token_and_the_longest,
    segments_may_be_left_out,
    layers_and_depth,
    first_layers_can_be_kept,
    dropout_only_in_training,
    saved_and_loaded_exactly,
    one_step_lowers_the_loss,
    compiles_to_one_graph,
]
check_family = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
