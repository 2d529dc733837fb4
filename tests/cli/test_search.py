"""tianci search: JSON per query, blank lines, kept vectors, one-sentence errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tests.goals import tiny
from tests.parity.family import loud
from tianci import checkpoint
from tianci.cli.search import search
from tianci.errors import UserError
from tianci.goals.tasks.similar import Similar
from tianci.models import bert
from tianci.serve.predictor import load
from tianci.tune.settings import Finetune
from tianci.tune.start import give_head

CORPUS = ["the dog", "今天天气", "", "the cat", "今天有雨", "a cat run"]


@pytest.fixture(scope="module", params=[{}, {"pooling": "mean-max", "hidden": 8}], ids=str)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("search")
    words = tiny.tokenizer()
    config = bert.Config(
        vocabulary=len(words), width=16, layers=1, heads=2, hidden=16, positions=24
    )
    model = checkpoint.create("bert", config)
    model.tokenizer = words
    task = Similar(how="pairs")
    give_head(model, task, Finetune(**request.param))
    loud(model.model, 0)
    model.about = {"task": task.as_table(), "limit": 24}
    checkpoint.write(folder / "model", model)
    (folder / "corpus.txt").write_text("\n".join(CORPUS) + "\n", encoding="utf-8")
    return folder


def run(folder: Path, *arguments: str, stdin: str = "") -> Result:
    both = [str(folder / "model"), str(folder / "corpus.txt")]
    return CliRunner().invoke(search, [*both, *arguments], input=stdin)


def test_a_text_finds_itself(folder: Path) -> None:
    result = run(folder, "the cat", "今天有雨", "--json", "--top", "2")
    first, second = map(json.loads, result.stdout.splitlines())
    assert [one["line"] for one in (first[0], second[0])] == [4, 5]
    assert first[0]["text"] == "the cat" and first[0]["score"] == pytest.approx(1.0, abs=1e-5)
    assert len(first) == 2
    predictor = load(folder / "model")
    one, other = predictor.embed(["the cat", first[1]["text"]])
    cosine = float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))
    assert first[1]["score"] == pytest.approx(cosine, abs=1e-5)
    # the task and `embed` say the same, whatever the head is made of
    said = predictor([("the cat", first[1]["text"]), ("the cat", "the cat")])
    assert said[0]["score"] == pytest.approx(cosine, abs=1e-5)


def test_blank_lines_are_never_found(folder: Path) -> None:
    found = json.loads(run(folder, "", "--json", "--top", "10").stdout)
    assert sorted(one["line"] for one in found) == [1, 2, 4, 5, 6]


def test_queries_from_standard_input_and_for_people(folder: Path) -> None:
    result = run(folder, "--file", "-", "--top", "1", stdin="the dog\n今天天气\n")
    lines = result.stdout.splitlines()
    assert lines[0] == "the dog" and lines[1].split() == ["1.0000", "line", "1", "the", "dog"]
    assert lines[2] == "今天天气" and "line 2" in lines[3]


def test_kept_vectors_give_the_same(folder: Path, tmp_path: Path) -> None:
    kept = ("--vectors", str(tmp_path / "x.npy"))
    first = run(folder, "the cat", "--json", *kept)
    assert np.load(tmp_path / "x.npy").shape[0] == len(CORPUS)
    second = run(folder, "the cat", "--json", *kept)
    assert first.stdout == second.stdout != ""


def test_errors(folder: Path, tmp_path: Path) -> None:
    assert "give a QUERY" in run(folder).output
    (tmp_path / "empty.txt").write_text("\n\n")
    result = CliRunner().invoke(search, [str(folder / "model"), str(tmp_path / "empty.txt"), "x"])
    assert isinstance(result.exception, UserError) and "no text in it" in str(result.exception)
