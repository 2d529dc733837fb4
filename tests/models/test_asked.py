"""Only the last states that somebody reads are computed; what is read stays the same."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from tianci import checkpoint
from tianci.batch import Batch
from tianci.goals.base import asking
from tianci.goals.objectives import parse
from tianci.models import family
from tianci.nn.task_heads import HeadPlan, PlannedHead

FAMILIES = ["bert", "roberta", "albert", "distilbert", "gpt", "gpt2"]
ASKED = torch.tensor([1, 5, 3])


def batch() -> Batch:
    return Batch.of([[5, 6, 7, 8, 9], [3, 4, 5]], [[0, 0, 0, 1, 1], [0, 0, 0]])


def small(name: str) -> torch.nn.Module:
    torch.manual_seed(0)
    sizes = dataclasses.replace(
        next(iter(family(name).PRESETS.values())), vocabulary=20, width=8, layers=2, heads=2
    )
    return family(name).build(sizes).double().eval()  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", FAMILIES)
def test_asked_states_and_gradients_are_those_of_the_whole(name: str) -> None:
    model = small(name)
    whole = model(batch()).last
    loud = torch.randn(len(ASKED), whole.shape[1], dtype=torch.float64)
    parameters = list(model.parameters())
    expected = torch.autograd.grad((whole[ASKED] * loud).sum(), parameters, allow_unused=True)

    part = model(dataclasses.replace(batch(), asked=ASKED)).last
    found = torch.autograd.grad((part[ASKED] * loud).sum(), parameters, allow_unused=True)

    assert part.shape == whole.shape
    assert torch.allclose(part[ASKED], whole[ASKED], atol=1e-12)
    others = torch.tensor([0, 2, 4, 6, 7])
    assert part[others].isnan().all()  # nobody may read these by mistake
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.allclose(one, other, atol=1e-12)


def test_the_last_block_works_less() -> None:
    model = small("bert")
    seen: list[int] = []
    up = model.get_submodule("stack.blocks.1.feed.part.up")
    up.register_forward_hook(lambda module, given, said: seen.append(len(said)))
    model(dataclasses.replace(batch(), asked=ASKED))
    model(batch())
    assert seen == [3, 8]


def test_joint_losses_ask_for_masked_tokens_and_firsts() -> None:
    goal = parse("masked+next_sentence")
    sizes = dataclasses.replace(
        family("bert").PRESETS["tiny"], vocabulary=20, width=8, hidden=16, dropout=0.0,
        attention_dropout=0.0,
    )  # fmt: skip
    model = checkpoint.create("bert", sizes, goal.heads)
    given = dataclasses.replace(
        batch(),
        targets={
            "masked_at": torch.tensor([0, 3]),
            "masked_is": torch.tensor([4, 4]),
            "label": torch.tensor([0, 1]),
        },
    )
    wishes = [part.asks(model.heads, given) for part in goal.parts]
    assert asking(given, wishes).asked is not None
    assert asking(given, wishes).asked.tolist() == [0, 3, 5]  # type: ignore[union-attr]
    whole = model.model(given)
    for part, loss in zip(
        goal.parts, goal.losses(model.model, model.heads, given).values(), strict=True
    ):
        expected = part.loss(model.model, model.heads, whole, given)
        assert torch.allclose(loss.total, expected.total, atol=1e-5)


def test_nothing_is_left_out_where_most_is_asked_or_somebody_wants_all() -> None:
    most = torch.arange(4)
    assert asking(batch(), [most]).asked is None
    assert asking(batch(), [torch.tensor([1]), None]).asked is None
    assert asking(batch(), []).asked is None


def test_heads_say_what_they_read() -> None:
    layout = batch().layout

    def asks(**plan: object) -> list[int] | None:
        head = PlannedHead(8, HeadPlan(2, **plan))  # type: ignore[arg-type]
        found = head.asks(layout)
        return None if found is None else found.tolist()

    assert asks() == [0, 5]
    assert asks(pooling="last") == [4, 7]
    assert asks(pooling="mean") is None
    assert asks(mixed_layers=3) is None
    assert asks(lstm=4) is None
    assert asks(per_token=True) is None
