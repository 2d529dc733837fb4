"""Several labels at once: scores per label and the worst errors, by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.goals.small_training import row
from tianci.goals.tasks.classify import Classify


def test_details_of_many_labels() -> None:
    task = dataclasses.replace(Classify(many=True), labels=("a", "b"))
    rows = [
        row(1, text="x", label=["a"]),
        row(2, text="y", label=["a", "b"]),
        row(3, text="z", label=[]),
    ]
    shares = np.array([[0.9, 0.2], [0.3, 0.6], [0.8, 0.1]])
    answers = list(np.log(shares / (1 - shares)))
    found = task.details(rows, answers, {})
    first, second = found["per_label"]
    # a: said in rows 1 and 3, right in 1 and 2
    assert (first["name"], first["precision"], first["recall"], first["support"]) == (
        "a",
        0.5,
        0.5,
        2,
    )
    assert (second["precision"], second["recall"], second["f1"]) == (1.0, 1.0, 1.0)
    third, other = found["errors"]  # the surest first; row 1 is right
    assert (third["text"], third["label"], third["predicted"]) == ("z", "", "a")
    assert third["score"] == pytest.approx(0.8)
    assert (other["text"], other["label"], other["predicted"]) == ("y", "a, b", "b")
    assert other["score"] == pytest.approx(0.7)
