"""Properties every packed model must have: neighbours, order and batch size never change a
result."""

from __future__ import annotations

import pytest
import torch

from tests.parity.family import loud, ragged
from tianci.batch import Batch
from tianci.errors import UserError
from tianci.models import bert, family, preset

CONFIG = bert.Config(vocabulary=97, width=32, layers=3, heads=4, hidden=64, positions=512)


@pytest.fixture
def model() -> bert.Bert:
    model = bert.build(CONFIG).eval()
    loud(model, 0)
    return model


def rows(batch: Batch) -> list[tuple[list[int], list[int]]]:
    assert batch.segments is not None
    lengths = list(batch.layout.lengths)
    ids, segments = batch.tokens.split(lengths), batch.segments.split(lengths)
    return [(i.tolist(), s.tolist()) for i, s in zip(ids, segments, strict=True)]


@torch.no_grad()
def test_packed_equals_one_by_one_and_any_order(model: bert.Bert) -> None:
    batch = ragged(1, CONFIG.vocabulary, 40, count=9)
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
def test_packed_equals_padded_with_a_mask(
    model: bert.Bert, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same model with attention done the usual way: padded, with a mask."""
    from tianci.nn import attention

    batch = ragged(2, CONFIG.vocabulary, 30)
    packed = model(batch).last

    def padded(q, k, v, layout, pattern, dropout=0.0):
        q, k, v = (layout.pad(x).transpose(1, 2) for x in (q, k, v))
        mask = layout.mask[:, None, None, :]
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return layout.pack(out.transpose(1, 2))

    monkeypatch.setattr(attention, "attend", padded)
    torch.testing.assert_close(model(batch).last, packed, atol=1e-5, rtol=0)


@torch.no_grad()
def test_edges(model: bert.Bert) -> None:
    nothing = model(Batch.of([]))
    assert nothing.last.shape == (0, 32) and nothing.pooled("mean").shape == (0, 32)
    assert model(Batch.of([[5]])).last.isfinite().all()
    assert model(Batch.of([[5] * 512])).last.shape == (512, 32)
    with pytest.raises(UserError, match="513 tokens, but the model reads 512"):
        model(Batch.of([[5] * 513]))


def test_layers_in_depth_order_and_mixed(model: bert.Bert) -> None:
    states = model(ragged(3, CONFIG.vocabulary, 12))
    assert len(states.layers) == 4 and len(model.depth()) == 4
    weights = torch.tensor([0.5, 0.0, 0.0, 2.0])
    expected = 0.5 * states.layers[0] + 2.0 * states.layers[3]
    torch.testing.assert_close(states.mixed(weights), expected)
    names = {id(p) for part in model.depth() for p in part.parameters()}
    assert names == {id(p) for p in model.parameters()}


def test_dropout_only_in_training(model: bert.Bert) -> None:
    batch = ragged(4, CONFIG.vocabulary, 20)
    assert torch.equal(model(batch).last, model(batch).last)
    model.train()
    assert not torch.equal(model(batch).last, model(batch).last)


def test_fresh_weights_are_berts() -> None:
    torch.manual_seed(0)
    model = bert.build(bert.Config(vocabulary=2000, width=128, layers=2, heads=2, hidden=512))
    for name, p in model.named_parameters():
        if "norm" in name:
            assert torch.equal(p, torch.full_like(p, float(name.endswith("weight"))))
        elif name.endswith("bias"):
            assert not p.any()
        elif name == "embedding.position.weight":  # waves: neighbours begin alike
            assert p[0, 0] == 0 and abs(p[0, 1].item() - 0.02) < 1e-8
            assert abs(p[1, 0].item() - 0.02 * 0.8414709848) < 1e-8
            near, far = torch.dot(p[100], p[101]), torch.dot(p[100], p[140])
            assert near > 1.5 * far
        elif p.numel() > 10_000:
            assert abs(p.std().item() - 0.02) < 5e-4, name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 5}, "5 heads do not divide a width of 32"),
        ({"width": 0}, "width = 0 cannot be built"),
        ({"activation": "gulu"}, 'unknown activation "gulu"; did you mean "gelu"'),
    ],
)
def test_impossible_sizes(change: dict[str, object], message: str) -> None:
    values = {"vocabulary": 9, "width": 32, "layers": 1, "heads": 4, "hidden": 8, **change}
    with pytest.raises(UserError, match=message):
        bert.build(bert.Config(**values))


def test_names_of_families_and_presets() -> None:
    assert preset("bert-mini") == preset("mini") == ("bert", bert.PRESETS["mini"])
    with pytest.raises(UserError, match='unknown preset "bert-mimi"; did you mean "bert-mini"'):
        preset("bert-mimi")
    with pytest.raises(UserError, match='unknown model family "brt"; did you mean "bert"'):
        family("brt")


def test_one_step_lowers_the_loss() -> None:
    torch.manual_seed(0)
    model = bert.build(CONFIG)
    batch = ragged(5, CONFIG.vocabulary, 20)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def loss() -> torch.Tensor:
        logits = model.eval()(batch).last @ model.token_table().T
        return torch.nn.functional.cross_entropy(logits, batch.tokens)

    before = loss()
    before.backward()
    optimizer.step()
    assert loss() < before - 0.01


def test_compiles_to_one_graph(model: bert.Bert) -> None:
    batch = ragged(6, CONFIG.vocabulary, 10)
    assert len(batch.layout.position) and batch.layout.groups  # made with the data, not traced
    explained = torch._dynamo.explain(model)(batch)
    assert explained.graph_count == 1 and explained.graph_break_count == 0
