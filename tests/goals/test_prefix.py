"""Source to target: sequences and losses by hand, on three families."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.goals.tiny import Dice, store, tokenizer
from tianci import checkpoint
from tianci.batch import Batch, Layout
from tianci.goals.laying import Marks
from tianci.goals.objectives import parse
from tianci.goals.objectives.prefix import Prefix, writing
from tianci.goals.objectives.segments import Example
from tianci.models import bert, gpt2, t5
from tianci.train.audit import audit
from tianci.train.examples import Examples, Recipe

MARKS = Marks(2, 3)
WHOLE = Example((0, 5), opens=True, closes=True)
TEXT = np.arange(10, 15)
MODELS: dict[str, tuple[str, Any]] = {
    "causal": ("gpt2", gpt2.Config(80, 16, 2, 2, 32, 40)),
    "masked": ("bert", bert.Config(80, 16, 2, 2, 32, 40)),
    "generation": ("t5", t5.Config(80, 16, 2, 2, 2, 8, 32, 40)),
}


def lay(head: Any, example: Example = WHOLE, text: Any = TEXT) -> Any:
    rng: Any = Dice(2 if len(text) > 1 else 1)
    return Prefix(head=head).lay(text, example, MARKS, rng)


def test_sequences_by_hand() -> None:
    one = lay("causal")
    assert one.ids.tolist() == [2, 10, 11, 3, 12, 13, 14, 3] and one.prefix == 4
    cut = lay("masked", WHOLE._replace(closes=False))
    assert cut.ids.tolist() == [2, 10, 11, 3, 12, 13, 14]  # it does not end here
    two = lay("generation")
    assert two.ids.tolist() == [10, 11, 3] and two.decoder.tolist() == [2, 12, 13, 14, 3]
    short = lay("causal", text=np.array([10]))
    assert short.ids.tolist() == [2, 10, 3, 3] and short.prefix == 3
    for head in ("causal", "generation"):
        back = Prefix(head=head).restored(lay(head), WHOLE, MARKS)  # type: ignore[arg-type]
        assert back is not None and back.tolist() == TEXT.tolist()
    assert Prefix().restored(one._replace(prefix=5), WHOLE, MARKS) is None


def test_places_that_write() -> None:
    assert writing(Layout([8, 3], prefix=[4, 2])).tolist() == [3, 4, 5, 6, 9]


@pytest.mark.parametrize("head", list(MODELS))
def test_loss_of_the_target_alone(head: Any) -> None:
    torch.manual_seed(0)
    made = checkpoint.create(*MODELS[head], (head,))
    made.model.eval()
    goal, laid = Prefix(head=head), lay(head)
    batch = Batch.of([laid.ids.tolist()])
    if head == "generation":
        batch = replace(batch, decoder=Batch.of([laid.decoder.tolist()]))
        rows, answers = [0, 1, 2, 3], [12, 13, 14, 3]
    else:
        batch = replace(batch, layout=Layout([8], prefix=[4]))
        rows, answers = [3, 4, 5, 6], [12, 13, 14, 3]
    states = made.model(batch)
    logits = made.heads[head](states.last, made.model.token_table())
    expected = F.cross_entropy(logits[rows], torch.tensor(answers), reduction="sum")
    assert goal.heads == (head,) and goal.count(batch) == 4
    found = goal.loss(made.model, made.heads, states, batch)
    assert found.total.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("head", list(MODELS))
def test_audit(head: str) -> None:
    goal = parse("prefix", {"prefix": {"head": head}})
    recipe = Recipe(goal, 40, 0.1, 2048, 3)
    report = audit(Examples(store(documents=60), tokenizer(), recipe))
    assert report.off == [] and 0.4 < report.rates["prefix.source"].value < 0.65
    assert max(sample.segments.count(1) for sample in report.samples) > 0
