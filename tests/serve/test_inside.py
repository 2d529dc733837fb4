"""What an answer rests on and where attention goes, by HTTP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.serve.conftest import Running
from tianci.batch import Batch
from tianci.goals.tasks.base import Part
from tianci.serve.attribution import Attribute, Wanted
from tianci.serve.predictor import load

Start = Callable[..., Running]
TEXT = "今天天气不错"


def test_shares_add_up_to_the_difference_in_log_odds(running: Start) -> None:
    server = running("classify")
    logits = {
        text: {
            one["label"]: one["score"]
            for one in server.post("/predict", {"inputs": text, "raw_scores": True}).json()
        }
        for text in (TEXT, "[MASK]" * 6)
    }
    margins = [one["+"] - one["-"] for one in logits.values()]
    body = {"inputs": TEXT, "label": "+", "steps": 64}
    found = server.post("/attribute", body).json()
    assert found["label"] == "+" and found["baseline_token"] == "[MASK]"
    assert [found["value"], found["baseline"]] == pytest.approx(margins, abs=1e-4)
    shares = [one["share"] for one in found["tokens"]]
    assert sum(shares) == pytest.approx(margins[0] - margins[1], rel=0.02)
    assert found["gap"] == pytest.approx(margins[0] - margins[1] - sum(shares), abs=1e-6)
    assert [one["text"] for one in found["tokens"]] == ["[CLS]", *TEXT, "[SEP]"]
    assert shares[0] == shares[-1] == 0 and all(shares[1:-1])
    # of two labels one loses what the other gains
    other = server.post("/attribute", {**body, "label": "-"}).json()
    np.testing.assert_allclose([one["share"] for one in other["tokens"]], np.negative(shares), 1e-3)
    likeliest = server.post("/attribute", {"inputs": TEXT}).json()
    assert likeliest["label"] == max(logits[TEXT], key=lambda label: logits[TEXT][label])


def test_shares_of_a_linear_model_are_exact(folders: dict[str, Path]) -> None:
    """Without layers and norms the share of a token is its vector times the head's weights."""
    model = load(folders["regress"])
    body: Any = model.model
    body.stack.blocks = torch.nn.ModuleList()
    body.embedding.norm = torch.nn.Identity()
    head = torch.nn.Linear(32, 1)

    class Summed(torch.nn.Module):
        def forward(self, states: list[torch.Tensor], layout: object) -> torch.Tensor:
            batch = len(layout)  # type: ignore[arg-type]
            out: torch.Tensor = head(states[-1].view(batch, -1, 32).sum(1))
            return out

    model.heads["sequence"] = Summed()
    encoded = model.tokenizer.encode([TEXT])[0]
    part = Part(encoded.ids, encoded.segments)
    (found,) = Attribute(model, model.task, 4).run(
        [Wanted(part, encoded.special, None)], lambda: None
    )
    table, mask = model.model.token_table(), model.tokenizer.mask
    expected = (table[encoded.ids] - table[mask]) @ head.weight[0]
    expected[[0, -1]] = 0
    np.testing.assert_allclose(found.tokens, expected.detach().numpy(), rtol=1e-3, atol=1e-4)


def test_pairs_and_numbers(running: Start) -> None:
    server = running("pair", "regress")
    pair = server.post("/attribute", {"inputs": ["今天", "天气"], "model": "pair"}).json()
    assert [one["part"] for one in pair["tokens"]] == [0, 0, 0, 0, 1, 1, 1]
    assert [one["text"] for one in pair["tokens"]][4:6] == ["天", "气"]
    assert pair["tokens"][4]["start"] == 0
    number = server.post("/attribute", {"inputs": TEXT, "model": "regress", "steps": 64}).json()
    said = server.post("/predict", {"inputs": TEXT, "model": "regress"}).json()
    assert number["value"] == pytest.approx(said[0]["score"], abs=1e-4)
    total = sum(one["share"] for one in number["tokens"])
    assert total == pytest.approx(number["value"] - number["baseline"], rel=0.03, abs=0.02)


def test_attribution_leaves_the_model_as_it_was(running: Start) -> None:
    server = running("classify")
    before = server.post("/predict", {"inputs": TEXT}).json()
    server.post("/attribute", {"inputs": TEXT})
    assert server.post("/predict", {"inputs": TEXT}).json() == before


@pytest.mark.parametrize(
    ("route", "body", "status"),
    [
        ("/attribute", {"inputs": TEXT, "label": "<b>"}, 422),
        ("/attribute", {"inputs": TEXT, "steps": 1000}, 422),
        ("/attribute", {"inputs": ["a", "b", "c"]}, 422),
        ("/attribute", {"inputs": "天" * 60}, 413),
        ("/attribute", {"inputs": "天" * 40, "steps": 256}, 413),
        ("/attribute", {"inputs": TEXT, "model": "base"}, 424),
        ("/attention", {"inputs": "天" * 60}, 413),
        ("/attention", {"inputs": TEXT, "layers": [2]}, 422),
        ("/attention", {"inputs": TEXT, "model": "nobody"}, 404),
    ],
)
def test_limits(running: Start, route: str, body: dict[str, object], status: int) -> None:
    server = running("classify", "base", limits={"batch_tokens": 1000})
    found = server.post(route, body)
    assert found.status_code == status, found.text
    assert found.json()["error"]


def test_attention_rows_are_shares(running: Start, folders: dict[str, Path]) -> None:
    server = running("base", "gpt2")
    found = server.post("/attention", {"inputs": ["今天", "dogs"]}).json()
    assert [one["text"] for one in found["tokens"]] == [
        "[CLS]", "今", "天", "[SEP]", "dog", "s", "[SEP]"
    ]  # fmt: skip
    assert found["layers"] == found["heads"] == 2 and found["shown"] == [0, 1]
    weights = np.array(found["weights"])
    assert weights.shape == (2, 2, 7, 7)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-4)
    second = server.post("/attention", {"inputs": ["今天", "dogs"], "layers": [1]}).json()
    np.testing.assert_allclose(second["weights"][0], weights[1])
    causal = server.post("/attention", {"inputs": TEXT, "model": "gpt2"}).json()["weights"]
    assert np.triu(np.array(causal), 1).max() == 0
    # and they are the ones that the model uses: its first layer by hand
    model = load(folders["base"])
    encoded = model.tokenizer.encode(["今天"], ["dogs"])[0]
    batch = Batch.of([encoded.ids], [encoded.segments])
    body: Any = model.model
    part = body.stack.blocks[0].attention.part
    with torch.no_grad():
        q, k, _ = part.qkv(body.embedding(batch)).view(7, 3, 2, 16).unbind(1)
    scores = torch.einsum("qhd,khd->hqk", q, k) / 4
    np.testing.assert_allclose(weights[0], scores.softmax(-1).numpy(), atol=2e-5)


def test_long_answers_are_refused(running: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    from tianci.serve import inside

    monkeypatch.setattr(inside, "MOST_WEIGHTS", 2 * 8 * 8)  # one layer of 2 heads at 8 tokens
    server = running("base")
    found = server.post("/attention", {"inputs": TEXT})
    assert found.status_code == 413 and "at most 1 layers" in found.json()["error"]
    assert server.post("/attention", {"inputs": TEXT, "layers": [0]}).status_code == 200
