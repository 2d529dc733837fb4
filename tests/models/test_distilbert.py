"""DistilBERT: what every family must keep, and how it begins as a BERT."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.models.family import Check, check_family, loud_model
from tests.parity.family import loud, ragged
from tianci.checkpoint import Checkpoint, create, read, write
from tianci.errors import UserError
from tianci.models import bert, distilbert

CONFIG = distilbert.Config(vocabulary=97, width=32, layers=3, heads=4, hidden=64, positions=60)
TEACHER = bert.Config(vocabulary=97, width=32, layers=5, heads=4, hidden=64, positions=60)


@check_family
def test_family(check: Check, tmp_path: Path) -> None:
    check("distilbert", CONFIG, tmp_path)


def test_with_all_layers_it_is_the_bert() -> None:
    """Texts of one segment: the segment's vector is in the positions."""
    teacher = loud_model("bert", TEACHER)
    student = distilbert.from_bert(teacher, every=1).eval()
    batch = replace(ragged(1, 97, 20), segments=None)
    ours, theirs = student(batch).layers, teacher(batch).layers
    assert len(ours) == 6
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


def test_every_second_layer_of_a_bert(tmp_path: Path) -> None:
    teacher = create("bert", TEACHER, ("masked", "next_sentence"))
    loud(teacher.model, 0)
    loud(teacher.heads["masked"], 1)
    student = distilbert.from_bert(teacher.model)
    assert student.config == replace(CONFIG, layers=3)
    for mine, number in zip(student.stack.blocks, (0, 2, 4), strict=True):
        for name, tensor in mine.state_dict().items():
            assert torch.equal(tensor, teacher.model.stack.blocks[number].state_dict()[name])
    # independent of the teacher, with the teacher's head, in its own format
    student.token_table().data.zero_()
    assert teacher.model.token_table().abs().sum() > 0
    made = Checkpoint("distilbert", student, {"masked": teacher.heads["masked"]})
    write(tmp_path / "model", made)
    assert made.architecture == "DistilBertForMaskedLM"
    head = read(tmp_path / "model").heads["masked"]
    assert torch.equal(head.dense.weight, teacher.heads["masked"].dense.weight)


@pytest.mark.parametrize(
    ("config", "every", "message"),
    [
        (TEACHER, 0, "every must be from 1 to 5, not 0"),
        (TEACHER, 6, "every must be from 1 to 5, not 6"),
        (replace(TEACHER, norm_eps=1e-5), 2, "layer_norm_eps is 1e-05, but DistilBERT only knows"),
    ],
)
def test_a_bert_that_does_not_fit(config: bert.Config, every: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        distilbert.from_bert(bert.build(config), every)
