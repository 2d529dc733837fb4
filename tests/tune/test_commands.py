"""finetune, predict, evaluate and check as people type them."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

import tianci
from tests.tune.conftest import write_rows
from tianci.cli import main
from tianci.errors import UserError


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    return int(stop.value.code or 0)


@pytest.fixture(scope="module")
def tuned(base: Path, reviews: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tuned") / "out"
    code = call("finetune", "classify", "--model", base, "--train", reviews["train"], "--dev",
                reviews["dev"], "--epochs", 6, "--lr", "3e-3", "--out", out, "-q")  # fmt: skip
    assert code == 0
    return out


def test_predict_keeps_order_and_goes_on_after_a_bad_row(tuned, tmp_path, capsys) -> None:
    good = [json.loads(x) for x in write_rows(tmp_path / "a.jsonl", 30, 9).read_text().splitlines()]
    lines = [json.dumps(row, ensure_ascii=False) for row in good]
    lines[7] = "{not json"
    lines[20] = json.dumps({"label": "+"})
    (tmp_path / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert call("predict", tuned, tmp_path / "rows.jsonl", "-q") == 1
    out, err = capsys.readouterr()
    answers = [json.loads(line) for line in out.splitlines()]
    assert len(answers) == 30
    assert [n for n, a in enumerate(answers) if "error" in a] == [7, 20]
    assert "rows.jsonl, line 8" in err and "rows.jsonl, line 21" in err
    right = [
        a["label"] == g["label"] for a, g in zip(answers, good, strict=True) if "error" not in a
    ]
    assert sum(right) >= 25


def test_predict_goes_on_after_a_row_that_only_the_task_finds_wrong(base, tmp_path, capsys) -> None:
    rows = [{"context": "我们", "question": "天", "choices": ["天", "雨"], "label": n % 2}
            for n in range(20)]  # fmt: skip
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    (tmp_path / "train.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert call("finetune", "choose", "--model", base, "--train", tmp_path / "train.jsonl", "--out",
                tmp_path / "out", "--steps", 1, "--force", "-q") == 0  # fmt: skip
    lines[0] = lines[2] = json.dumps({**rows[0], "choices": []})
    (tmp_path / "rows.jsonl").write_text("\n".join(lines[:5]), encoding="utf-8")
    capsys.readouterr()
    assert call("predict", tmp_path / "out", tmp_path / "rows.jsonl", "-q") == 1
    out, err = capsys.readouterr()
    assert ["error" in json.loads(line) for line in out.splitlines()] == [1, 0, 1, 0, 0]
    assert "rows.jsonl, line 1: the list of choices is empty" in err and "line 3" in err


def test_predict_says_that_there_are_no_rows(tuned, tmp_path, capsys) -> None:
    (tmp_path / "none.jsonl").write_text("")
    assert call("predict", tuned, tmp_path / "none.jsonl") == 2
    out, err = capsys.readouterr()
    assert out == "" and "no rows in it" in err and len(err.splitlines()) == 1


def test_predict_reads_standard_input(tuned, capsys, monkeypatch) -> None:
    texts = ["我们天上", "他在雨中", "我们天上"]
    given = io.TextIOWrapper(io.BytesIO("\n".join(texts).encode()))
    monkeypatch.setattr(sys, "stdin", given)
    assert call("predict", tuned, "-", "-q") == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    model = tianci.load(tuned)
    for text, answer in zip(texts, answers, strict=True):
        assert answer["scores"] == pytest.approx(model(text)["scores"], abs=1e-5)
    assert [answer["label"] for answer in answers] == ["+", "-", "+"]


def test_evaluate_on_rows_gives_the_scores_of_the_run(tuned, reviews, capsys) -> None:
    assert call("evaluate", tuned, reviews["dev"], "--json", "-q") == 0
    found = json.loads(capsys.readouterr().out)
    scores = json.loads((tuned / "scores.json").read_text())["dev"]["scores"]
    assert found["count"] == 80
    assert {k: found[k] for k in scores} == pytest.approx(scores)


def test_finetune_says_what_is_wrong_in_one_line(base, reviews, tmp_path, capsys) -> None:
    start = ["finetune", "classify", "--model", base, "--out", tmp_path / "out"]
    (tmp_path / "bad.jsonl").write_text('{"text": "我"}\n', encoding="utf-8")
    cases = {
        "no column for label": [*start, "--train", tmp_path / "bad.jsonl"],
        "cannot be read": [*start, "--train", tmp_path / "nowhere.jsonl"],
        'did you mean "classify"': ["finetune", "clasify", "--model", base],
        "give --model, --train and --out": ["finetune", "classify", "--model", base],
    }
    for message, arguments in cases.items():
        assert call(*arguments) == 2, message
        err = capsys.readouterr().err
        assert message in err and len(err.strip().splitlines()) == 1, err
    assert not (tmp_path / "out").exists()


def test_a_model_without_a_task_says_so(base, reviews, capsys) -> None:
    assert call("predict", base, reviews["dev"]) == 2
    assert "was not trained for a task" in capsys.readouterr().err


def test_check_names_file_and_line(tmp_path, capsys) -> None:
    rows = [
        {"text": "一样", "label": "a"},
        {"text": "两样", "label": "b"},
        {"text": "一样", "label": "b"},
    ]
    text = "\n".join(json.dumps(r, ensure_ascii=False) for r in rows)
    (tmp_path / "train.jsonl").write_text(text, encoding="utf-8")
    assert call("check", tmp_path / "train.jsonl", "--task", "classify", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {"file", "line", "fault", "advice"} <= set(found[0])
    assert ("two labels for one text", 3) in {(f["fault"], f["line"]) for f in found}


def test_check_in_python_takes_what_the_command_takes(tmp_path, capsys) -> None:
    for name in ("train", "dev"):
        rows = ['{"body": "我", "label": "+"}', '{"body": "天", "label": "-"}', '{"label": "-"}']
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows), encoding="utf-8")
    files = [tmp_path / "train.jsonl", tmp_path / "dev.jsonl"]
    call("check", *files, "--task", "classify", "--column", "text=body", "--json", "-q")
    wanted = json.loads(capsys.readouterr().out)
    assert len(wanted) > 2
    assert tianci.check(files, "classify", {"text": "body"}) == wanted
    assert tianci.check(files, task="classify", column="text=body") == wanted
    by_split = {"train": files[0], "dev": files[1]}
    assert tianci.check(task="classify", column=["text=body"], **by_split) == wanted
    assert tianci.check(by_split, "classify", {"text": "body"}) == wanted
    with pytest.raises(UserError, match='unknown argument "collumn"'):
        tianci.check(files, "classify", collumn="text=body")
