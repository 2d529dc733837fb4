"""Whole comparisons on toys: the table, what a stop leaves, and changed recipes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.comparison.conftest import RECIPE
from tianci.cli import main
from tianci.comparison.run import compare
from tianci.errors import UserError

Done = tuple[Path, dict[str, Any]]


@pytest.fixture(scope="module")
def done(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("out")
    return out, compare([toy / "toy.toml"], options={"compare": {"out": str(out)}}, quiet=True)


def test_a_row_per_model_and_one_for_the_baseline(done: Done) -> None:
    out, found = done
    bert, gpt, fresh, simple = found["rows"]
    assert [row["model"] for row in found["rows"]] == [
        "BERT", "GPT small", "fresh", "simple baseline",
    ]  # fmt: skip
    assert (bert["guess"], gpt["guess"]) == ("masked", "causal")
    assert set(bert["pairs"]) == {"next_sentence"} and gpt["pairs"] == {}
    assert "loss" not in fresh and fresh["parameters"] == bert["parameters"]
    assert bert["steps"] == gpt["steps"] == 30
    for row in (bert, gpt, fresh):
        task = row["tasks"]["eating"]
        assert (task["metric"], task["split"], len(task["scores"])) == ("accuracy", "test", 2)
        assert task["mean"] == pytest.approx(statistics.fmean(task["scores"]))
        assert task["sd"] == pytest.approx(statistics.stdev(task["scores"]))
    assert simple["tasks"]["eating"]["mean"] > 0.95 and "parameters" not in simple
    # the scores are those of the runs
    record = json.loads((out / "toy" / "bert" / "eating-1000" / "scores.json").read_text())
    assert record["test"]["scores"]["accuracy"] == bert["tasks"]["eating"]["scores"][1]
    assert record["rows"] == {"train": 60, "dev": 40, "test": 40}


def test_bits_per_byte_are_the_loss_spread_over_the_bytes(done: Done) -> None:
    out, found = done
    [store] = (out / "toy" / "corpus").iterdir()  # one vocabulary, one store for all three
    known = json.loads((store / "corpus.json").read_text())["statistics"]
    bert = found["rows"][0]
    expected = bert["loss"] * known["tokens"] / known["bytes"] / 0.6931471805599453
    assert bert["bits_per_byte"] == pytest.approx(expected)


def test_the_page_says_what_compares(done: Done) -> None:
    out, _ = done
    page = (out / "toy" / "compare.md").read_text(encoding="utf-8")
    assert page.startswith("# Toys\n\nThe same for all: text: text.txt; 30 steps of pre-training")
    assert "| BERT | masked+next_sentence | char, 45 |" in page
    assert "their held-out figures do not compare" in page
    assert "Losses per token of different vocabularies" not in page  # there is only one
    assert (out / "toy" / "compare.png").read_bytes()[:4] == b"\x89PNG"


def test_again_does_nothing_and_gives_the_same(toy: Path, done: Done) -> None:
    out, found = done
    before = {p: p.stat().st_mtime_ns for p in (out / "toy").rglob("*.safetensors")}
    began = time.monotonic()
    again = compare([toy / "toy.toml"], options={"compare": {"out": str(out)}}, quiet=True)
    assert again["rows"] == found["rows"]
    assert {p: p.stat().st_mtime_ns for p in (out / "toy").rglob("*.safetensors")} == before
    assert time.monotonic() - began < 20


def test_a_changed_recipe_is_noticed_but_may_grow(toy: Path, done: Done, tmp_path: Path) -> None:
    out, found = done
    shutil.copytree(out / "toy", tmp_path / "toy")
    options = {"compare": {"out": str(tmp_path)}}
    with pytest.raises(UserError, match=r"bert/model was made with length = 32, not 24"):
        compare([toy / "toy.toml"], ["train.length=24"], options, quiet=True)
    more = '\n[[model]]\nname = "twin"\npreset = "bert-tiny"\npretrained = false\n' \
           "sizes = {width = 16, heads = 2, hidden = 32, positions = 64}\n"  # fmt: skip
    (toy / "more").mkdir(exist_ok=True)
    (toy / "more" / "toy.toml").write_text(
        RECIPE.replace('data = "data"', 'data = "../data"') + more, encoding="utf-8"
    )
    grown = compare([toy / "more" / "toy.toml"], options=options, quiet=True)
    assert [r for r in grown["rows"] if r["model"] != "twin"] == found["rows"]
    assert len(grown["rows"]) == len(found["rows"]) + 1


def test_killed_it_goes_on_to_the_same_rows(toy: Path, done: Done, tmp_path: Path) -> None:
    _, found = done
    command = [sys.executable, "-m", "tianci", "compare", str(toy / "toy.toml"), "-q", "--json",
               "--out", str(tmp_path)]  # fmt: skip
    environment = dict(os.environ)  # as many threads as the other run had
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (tmp_path / "toy" / "gpt-small" / "model").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "toy" / "compare.json").exists(), "it was killed too late"
    result = subprocess.run(command, env=environment, capture_output=True, check=True)
    again = json.loads(result.stdout)
    assert [_scores(row) for row in again["rows"]] == [_scores(row) for row in found["rows"]]


def _scores(row: dict[str, Any]) -> dict[str, Any]:
    return {name: task["scores"] for name, task in row["tasks"].items()}


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["compare", str(tmp_path / "nowhere.toml")])
    assert stop.value.code == 2
    assert "nowhere.toml does not exist" in capsys.readouterr().err
