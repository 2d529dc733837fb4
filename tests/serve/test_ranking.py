"""Continuations in the order of their likelihood."""

from __future__ import annotations

import json
import math

import pytest
import torch

from tests.serve.test_generate import folder, model  # noqa: F401  (fixtures)
from tianci.cli import main
from tianci.errors import UserError
from tianci.serve.ranking import rank


def test_scores_are_conditional_log_probabilities(model) -> None:  # noqa: F811
    found = rank(model, "我们", ["的人", "天", "不错了"])
    tokenizer = model.tokenizer
    for one in found:
        before = [tokenizer.cls, *tokenizer.ids(["我们"], special=False)[0]]
        after = tokenizer.ids([one["text"]], special=False)[0]
        from tianci.batch import Batch

        with torch.inference_mode():
            states = model.model(Batch.of([before + after])).last
            logits = model.heads["causal"](states, model.model.token_table()).log_softmax(1)
        places = range(len(before) - 1, len(before) + len(after) - 1)
        expected = sum(float(logits[p, t]) for p, t in zip(places, after, strict=True))
        assert one["score"] == pytest.approx(expected, abs=1e-4)
    assert [one["score"] for one in found] == sorted((o["score"] for o in found), reverse=True)
    assert math.fsum(one["share"] for one in found) == pytest.approx(1)


def test_a_candidate_without_tokens_is_told(model) -> None:  # noqa: F811
    with pytest.raises(UserError, match="no token of its own"):
        rank(model, "我们", ["的", ""])


def test_the_command(folder, capsys) -> None:  # noqa: F811
    with pytest.raises(SystemExit) as stop:
        main(["rank", str(folder), "我们", "天", "气", "--json"])
    assert not stop.value.code
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["text"] for line in lines} == {"天", "气"}
    assert lines[0]["score"] >= lines[1]["score"]
