"""Rows behind the tokens that nobody reads: the same answers and gradients, and few shapes."""

import pytest
import torch
from torch import Tensor, nn

from tests.parity.family import loud
from tianci.batch import Batch
from tianci.models import bert
from tianci.nn import few_shapes
from tianci.nn import vocabulary_loss as loss_module
from tianci.nn.vocabulary_loss import vocabulary_loss

TINY = bert.Config(vocabulary=90, width=32, layers=3, heads=2, hidden=64, positions=64)
SIZES = bert.Config(**{**vars(TINY), "dropout": 0.0, "attention_dropout": 0.0})


def batch(seed: int = 0, asks: bool = True) -> Batch:
    dice = torch.Generator().manual_seed(seed)
    lengths = sorted(torch.randint(2, 40, (9,), generator=dice).tolist(), reverse=True)
    made = Batch.of([torch.randint(1, 90, (n,), generator=dice).tolist() for n in lengths])
    chosen = torch.randperm(len(made.tokens), generator=dice)[:23].sort().values
    return Batch(made.tokens, made.layout, asked=chosen if asks else None)


def learned(model: nn.Module, given: Batch) -> tuple[Tensor, list[Tensor | None]]:
    """What a model says of what is asked for, and the gradients of some sum of it."""
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        last = model(given).last
        said = last if given.asked is None else last[given.asked]
        (said * torch.linspace(-1, 1, said.numel()).view(said.shape)).sum().backward()
    assert len(last) == given.layout.tokens
    return said.detach(), [p.grad for p in model.parameters()]


def test_rounded() -> None:
    assert [few_shapes.rounded(n) for n in (1, 16, 17, 500, 1030, 2049)] == [
        16, 16, 32, 512, 1056, 2112,
    ]  # fmt: skip
    assert all(few_shapes.rounded(n) <= n + max(15, n / 32) for n in range(1, 5000))


FIRST = torch.zeros(0, dtype=torch.int64)


@pytest.mark.usefixtures("bf16")
@pytest.mark.parametrize("asked", ["some", "all", "first", "none"])
@pytest.mark.parametrize("frozen", [False, True])
def test_the_same_answers_and_gradients(
    asked: str, frozen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = bert.build(SIZES).train()
    loud(model, 0)
    given = batch(asks=asked != "all")
    if asked == "first":
        given = Batch(given.tokens, given.layout, asked=given.layout.first())
    if asked == "none":
        given = Batch(given.tokens, given.layout, asked=FIRST)
    if frozen:  # attention of what does not learn goes another way
        for parameter in model.stack.blocks[:2].parameters():
            parameter.requires_grad_(False)
    said, gradients = learned(model, given)
    monkeypatch.setattr(few_shapes, "in_bf16", lambda x: False)
    wanted, exact = learned(model, given)
    torch.testing.assert_close(said, wanted, rtol=0, atol=2e-2)
    for one, other in zip(gradients, exact, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            scale = float(other.abs().max()) + 1e-6
            torch.testing.assert_close(one, other, rtol=0, atol=0.02 * scale)


@pytest.mark.usefixtures("bf16")
def test_few_numbers_of_rows() -> None:
    model, seen = bert.build(TINY).train(), set()
    for part in model.modules():
        if isinstance(part, nn.Linear):
            part.register_forward_hook(lambda _, given, out: seen.add(len(given[0])))
    for seed in range(30):
        learned(model, batch(seed))
    assert all(count % 16 == 0 for count in seen)
    assert len(seen) < 15  # 30 batches, each with another number of tokens


def test_float32_is_left_alone() -> None:
    model, seen = bert.build(TINY).train(), set()
    model.stack.blocks[0].feed.register_forward_hook(lambda _, x, out: seen.add(len(out)))
    given = batch()
    model(given)
    assert seen == {given.layout.tokens}


@pytest.mark.usefixtures("bf16")
@pytest.mark.parametrize("cast", [False, True])
@pytest.mark.parametrize("rows", [16, 1000])  # of a piece: the last one may have no answer at all
def test_rows_behind_the_answers_are_not_judged(
    cast: bool, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_module, "CHUNK", 50 * rows)
    torch.manual_seed(0)
    table, bias, answers = torch.randn(50, 8), torch.randn(50), torch.randint(0, 50, (21,))

    def judged(behind: int) -> list[Tensor]:
        x = torch.randn(21, 8, generator=torch.Generator().manual_seed(1)).requires_grad_()
        entries, offset = table.clone().requires_grad_(), bias.clone().requires_grad_()
        more = torch.cat([x, 5 * torch.ones(behind, 8)])
        with torch.autocast("cpu", torch.bfloat16, enabled=cast):
            total, hits = vocabulary_loss(more, entries, offset, answers)
        total.backward()
        assert x.grad is not None and entries.grad is not None and offset.grad is not None
        return [total.detach(), hits, x.grad, entries.grad, offset.grad]

    alone = judged(0)
    for behind in (11, 27):
        for one, other in zip(judged(behind), alone, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
