"""T5 behind the server: targets as the predictor writes them, whole and as a stream; no other route
fails on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.parity.family import loud
from tests.serve.conftest import Running
from tests.serve.test_generate_t5 import vocabulary
from tianci import checkpoint
from tianci.models import t5
from tianci.serve.predictor import load

LIMIT = 16


@pytest.fixture
def server(
    running: Callable[..., Running], folders: dict[str, Path], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[Running, Path]:  # fmt: skip
    tokenizer = vocabulary()
    config = t5.Config(
        len(tokenizer), 32, 2, 2, 2, 16, 64, LIMIT, buckets=8, distance=20,
        begin=tokenizer.cls or 0, end=tokenizer.sep or 0, pad=tokenizer.pad or 0,
    )  # fmt: skip
    saved = checkpoint.create("t5", config, ("generation",))
    loud(saved.model, 5)
    saved.tokenizer = tokenizer
    checkpoint.write(tmp_path / "t5", saved)
    monkeypatch.setitem(folders, "t5", tmp_path / "t5")
    return running("t5"), tmp_path / "t5"


def test_targets_equal_the_predictors(server: tuple[Running, Path]) -> None:
    at, folder = server
    expected = load(folder).generate("天 the dog", longest=6)
    found = at.post("/generate", {"inputs": "天 the dog", "max_new_tokens": 6}).json()
    assert found == expected and 0 < len(found["ids"]) <= 6
    stream = at.post("/generate", {"inputs": "天 the dog", "max_new_tokens": 6, "stream": True})
    last = stream.text.strip().splitlines()[-1]
    assert json.loads(last.removeprefix("data: ")) == expected
    beams = at.post("/generate", {"inputs": "天", "max_new_tokens": 4, "beams": 3}).json()
    assert beams == load(folder).generate("天", longest=4, beams=3)


def test_source_and_target_have_a_room_each(server: tuple[Running, Path]) -> None:
    at, folder = server
    source = " ".join(["天"] * (LIMIT - 1))  # and its end: all that it reads
    whole = at.post("/generate", {"inputs": source, "max_new_tokens": LIMIT - 1})
    assert whole.status_code == 200
    assert at.post("/generate", {"inputs": source + " 天"}).status_code == 413
    cut = at.post(
        "/generate", {"inputs": source + " 天 the dog", "max_new_tokens": 5, "truncate": True}
    )
    assert cut.json() == load(folder).generate(source, longest=5)  # the same words, and an end


def test_no_route_fails_on_it(server: tuple[Running, Path]) -> None:
    at, _ = server
    abilities = at.client.get("/info").json()["models"][0]["abilities"]
    assert "generate" in abilities and "fill" not in abilities
    for path, body in {
        "/embed": {"inputs": "天"},
        "/similarity": {"inputs": {"source_sentence": "天", "sentences": ["a"]}},
        "/tokenize": {"inputs": "天"},
        "/score": {"inputs": "天"},
        "/fill": {"inputs": "天[MASK]"},
    }.items():
        able = path[1:] in abilities
        assert at.post(path, body).status_code == (200 if able else 424), path
