"""The whole of a fine-tuning run: learn, choose, measure, save, resume, predict."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tianci
from tianci import adapters, checkpoint
from tianci.data.rows import read_rows
from tianci.errors import UserError
from tianci.goals.tasks import make_task
from tianci.manifest import checksum
from tianci.train import probe
from tianci.tune import run, trial
from tianci.tune.run import split_rows
from tianci.tune.settings import Finetune

FAST = {"epochs": 8, "lr": "3e-3", "batch": 16, "dropout": 0.0}
SMALL_ADAPTERS = {"strategy": "adapters", "adapter_size": 4}


def tune(base: Path, reviews: dict[str, Path], out: Path, **more):
    names = {"model": base, "train": reviews["train"], "dev": reviews["dev"], "out": out, **FAST}
    return tianci.finetune("classify", **{**names, **more})


@pytest.mark.parametrize("quiet", [False, True])
def test_many_dev_rows_have_a_bar(base, reviews, tmp_path, monkeypatch, capsys, quiet) -> None:
    """Long passages take minutes after the training's own bar has gone."""
    monkeypatch.setattr(trial, "PATIENT", 0.0)
    tune(base, reviews, tmp_path / "out", epochs=1, quiet=quiet)
    assert ("dev:   0%|" in capsys.readouterr().err) == (not quiet)


def test_a_word_decides_and_is_learned(base, reviews, tmp_path) -> None:
    summary = tune(base, reviews, tmp_path / "out", test=reviews["test"])
    assert summary["dev"]["accuracy"] > 0.95
    assert summary["test"]["accuracy"] > 0.95
    low, high = summary["test_intervals"]["accuracy"]
    assert low <= summary["test"]["accuracy"] <= high
    assert 0.01 <= summary["threshold"] <= 0.99
    files = {p.name for p in (tmp_path / "out").iterdir()}
    assert {"model.safetensors", "config.json", "tianci.json", "scores.json", "report.html",
            "report.md", "tokenizer.json"} <= files  # fmt: skip

    model = tianci.load(tmp_path / "out")
    answer = model("我们天上")
    assert set(answer) == {"label", "score", "scores"}
    assert abs(sum(answer["scores"].values()) - 1) < 1e-9
    # alone or among others, first or last: the same answer
    rows = [r.values["text"] for r in read_rows(reviews["dev"], model.task.columns())]
    together = model(rows)
    alone = [model(text) for text in rows[:10]]
    for one, other in zip(alone, together, strict=False):
        assert one["label"] == other["label"]
        assert abs(one["score"] - other["score"]) < 1e-5
    backwards = model(rows[::-1])[::-1]
    assert [a["label"] for a in backwards] == [a["label"] for a in together]


def test_transformers_gives_the_same_logits_and_names(base, reviews, tmp_path) -> None:
    transformers = pytest.importorskip("transformers", reason="parity needs the dev extra")
    import torch

    tune(base, reviews, tmp_path / "out", epochs=1)
    theirs = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    assert theirs.config.id2label == {0: "+", 1: "-"}
    assert theirs.config.problem_type == "single_label_classification"
    model = tianci.load(tmp_path / "out")
    ids = model.tokenizer.ids(["我们天上", "雨"])
    for text, row in zip(["我们天上", "雨"], ids, strict=True):
        logits = theirs(input_ids=torch.tensor([row])).logits[0].detach().numpy()
        decision = model.checkpoint.about["decision"]
        shown = np.exp(logits.astype(float) / decision["temperature"])
        expected = shown / shown.sum()
        answer = model(text)["scores"]
        assert abs(answer["+"] - expected[0]) < 1e-5


def test_a_number_and_spans_load_there_whatever_the_base_was_tuned_for(
    base, reviews, tmp_path
) -> None:
    transformers = pytest.importorskip("transformers", reason="parity needs the dev extra")
    import torch

    three = [json.dumps({"text": f"我们{w}", "label": w}, ensure_ascii=False) for w in "天气雨" * 9]
    (tmp_path / "three.jsonl").write_text("\n".join(three), encoding="utf-8")
    tianci.finetune("classify", model=base, train=tmp_path / "three.jsonl", out=tmp_path / "first",
                    steps=1, force=True)  # fmt: skip
    numbers = [json.dumps({"text": f"我们{'天' * n}", "label": n / 2}, ensure_ascii=False)
               for n in range(1, 20)]  # fmt: skip
    (tmp_path / "numbers.jsonl").write_text("\n".join(numbers), encoding="utf-8")
    for start in (base, tmp_path / "first"):
        out = tmp_path / f"number-{start.name}"
        tianci.finetune(
            "regress", model=start, train=tmp_path / "numbers.jsonl", out=out, steps=1, force=True
        )
        theirs = transformers.AutoModelForSequenceClassification.from_pretrained(out).eval()
        assert (theirs.config.num_labels, theirs.config.problem_type) == (1, "regression")
        ours = tianci.load(out)
        said = theirs(input_ids=torch.tensor(ours.tokenizer.ids(["我们天天"]))).logits.item()
        assert abs(said - ours("我们天天")["score"]) < 1e-5

    asked = [json.dumps({"context": f"我们有{w}", "question": "天",
                         "answers": [{"text": w, "answer_start": 3}]},
                        ensure_ascii=False) for w in "天气雨散人大中到说国"]  # fmt: skip
    (tmp_path / "asked.jsonl").write_text("\n".join(asked), encoding="utf-8")
    tianci.finetune("answer", model=tmp_path / "first", train=tmp_path / "asked.jsonl",
                    out=tmp_path / "spans", steps=1, force=True)  # fmt: skip
    theirs = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path / "spans")
    assert theirs.config.num_labels == 2 and theirs.config.problem_type is None


def test_their_classifier_loads_here(base, tmp_path) -> None:
    transformers = pytest.importorskip("transformers", reason="parity needs the dev extra")
    import torch

    config = transformers.BertConfig(
        vocab_size=70, hidden_size=24, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=48, max_position_embeddings=32, num_labels=3,
        id2label={0: "no", 1: "maybe", 2: "yes"}, label2id={"no": 0, "maybe": 1, "yes": 2},
    )  # fmt: skip
    torch.manual_seed(3)
    for kind, head in (("SequenceClassification", "sequence"), ("TokenClassification", "token"),
                       ("QuestionAnswering", "span"), ("MultipleChoice", "choice")):  # fmt: skip
        theirs = getattr(transformers, f"BertFor{kind}")(config).eval()
        theirs.save_pretrained(tmp_path / kind)
        ours = checkpoint.read(tmp_path / kind)
        assert list(ours.heads) == [head], kind
    assert checkpoint.read(tmp_path / "SequenceClassification").labels == ("no", "maybe", "yes")


def test_dev_is_held_back_when_there_is_none(base, reviews, tmp_path) -> None:
    summary = tianci.finetune(
        "classify",
        model=base,
        train=reviews["train"],
        out=tmp_path / "out",
        **{**FAST, "epochs": 1},
    )
    assert summary["rows"] == {"train": 216, "dev": 24}


def test_what_is_held_back_has_each_label_with_its_share(tmp_path) -> None:
    lines = [f'{{"text": "{n}", "label": "{"rare" if n % 20 == 3 else "usual"}"}}'
             for n in range(200)]  # fmt: skip
    (tmp_path / "train.jsonl").write_text("\n".join(lines), encoding="utf-8")
    settings, drawn = Finetune(train=str(tmp_path / "train.jsonl")), set()
    for seed in range(20):
        rows = split_rows(make_task("classify"), settings, seed)
        held = [row.values["text"] for row in rows["dev"]]
        assert len(rows["train"]) == 180 and len(set(held)) == 20
        assert sum(row.values["label"] == "rare" for row in rows["dev"]) == 1
        drawn.update(held)
    assert len(drawn) > 150  # other rows with another seed


def test_a_sweep_and_seeds_are_chosen_by_dev(base, reviews, tmp_path) -> None:
    summary = tune(base, reviews, tmp_path / "out", sweep="lr=1e-7,3e-3", seeds=2, epochs=4)
    assert len(summary["trials"]) == 4
    assert summary["chosen"]["lr"] == 3e-3
    assert summary["spread"]["count"] == 2
    best = max(t["score"] for t in summary["trials"] if t["lr"] == 3e-3)
    assert abs(summary["dev"]["accuracy"] - best) < 1e-9


def test_a_run_that_says_one_thing_is_noticed_and_tried_again(base, reviews, tmp_path) -> None:
    summary = tune(base, reviews, tmp_path / "out", lr="1e-8", epochs=1)
    assert len(summary["notes"]) == 1
    assert "learned nothing" in summary["notes"][0]
    assert "3.3e-09" in summary["notes"][0]


def test_only_the_head_learns(base, reviews, tmp_path) -> None:
    tune(base, reviews, tmp_path / "out", strategy="head", lr="1e-2")
    old, new = checkpoint.read(base), checkpoint.read(tmp_path / "out")
    for name, weight in old.model.state_dict().items():
        assert (new.model.state_dict()[name] == weight).all(), name
    assert (new.heads["sequence"].linear.weight != 0).any()


def test_remembered_features_are_those_of_the_model(base) -> None:
    import torch

    from tianci.batch import Batch
    from tianci.tune.remember import Remembering

    body = checkpoint.read(base).model.eval()
    known = Remembering(body, all_layers=True)
    batch = Batch.of([[2, 7, 8, 3], [2, 9, 3]], [[0, 0, 1, 1], [0, 0, 0]])
    other = Batch.of([[2, 9, 3], [2, 7, 8, 3], [2, 3]], [[0, 0, 0], [0, 0, 1, 1], [0, 0]])
    for one in (batch, other, batch):
        for ours, theirs in zip(known(one).layers, body(one).layers, strict=True):
            assert torch.allclose(ours, theirs, atol=1e-6)


def test_adapters_are_one_small_file_for_their_base(base, reviews, tmp_path) -> None:
    summary = tune(
        base,
        reviews,
        tmp_path / "out",
        strategy="adapters",
        adapter_size=4,
        lr="1e-2",
        pooling="max",
    )
    assert summary["learned"] < summary["parameters"] / 3
    assert summary["dev"]["accuracy"] > 0.9
    assert not (tmp_path / "out" / "model.safetensors").exists()
    size = (tmp_path / "out" / "adapter.safetensors").stat().st_size
    assert size < (base / "model.safetensors").stat().st_size / 2
    loaded = tianci.load(tmp_path / "out")
    scores = json.loads((tmp_path / "out" / "scores.json").read_text())["dev"]["scores"]
    rows = read_rows(reviews["dev"], loaded.task.columns())
    right = [
        a["label"] == r.values["label"] for a, r in zip(loaded.predict(rows), rows, strict=True)
    ]
    assert abs(np.mean(right) - scores["accuracy"]) < 1e-9
    # the base may move, together with the adapter or alone
    import shutil

    (tmp_path / "moved").mkdir()
    shutil.copytree(base, tmp_path / "moved" / "base")
    assert tianci.load(tmp_path / "out", base=tmp_path / "moved" / "base").predict(rows[:3])
    # another base is refused
    told = json.loads((tmp_path / "out" / "tianci.json").read_text())
    told["adapter"]["base_hash"] = "0" * 64
    (tmp_path / "out" / "tianci.json").write_text(json.dumps(told))
    with pytest.raises(UserError, match="other weights"):
        adapters.read(tmp_path / "out")


@pytest.mark.parametrize(
    "more",
    [{"reinit": 1}, {"language": 0.5}, {"layers": 1, "mix": True}, {"strategy": "full+adapters"}],
)
def test_adapters_with_other_ways_load_as_they_were_measured(base, reviews, tmp_path, more) -> None:
    tune(base, reviews, tmp_path / "out", **{**SMALL_ADAPTERS, "epochs": 2, **more})
    scores = json.loads((tmp_path / "out" / "scores.json").read_text())["dev"]["scores"]
    loaded = tianci.load(tmp_path / "out")
    rows = read_rows(reviews["dev"], loaded.task.columns())
    right = np.array([row.values["label"] == "-" for row in rows])
    said = np.array([answer["scores"]["-"] for answer in loaded.predict(rows)])
    better = (said[right][:, None] > said[~right]).mean()  # AUC, by its definition
    assert abs(better - scores["auc"]) < 1e-3


def test_adapters_that_generate_can_be_loaded(base, tmp_path) -> None:
    rows = [json.dumps({"source": f"我{a}天{b}", "target": f"天{b}"}, ensure_ascii=False)
            for a in "你他们有的是" for b in "不了在人大中"]  # fmt: skip
    (tmp_path / "train.jsonl").write_text("\n".join(rows), encoding="utf-8")
    tianci.finetune("generate", model=base, train=tmp_path / "train.jsonl", out=tmp_path / "out",
                    steps=2, force=True, generate={"longest": 8}, **SMALL_ADAPTERS)  # fmt: skip
    assert tianci.load(tmp_path / "out")("我你天不")["text"] is not None


@pytest.mark.parametrize(
    "more",
    [
        {"layers": 1},
        {"pooling": "mean-max"},
        {"pooling": "last-mean-max", "hidden": 16},
        {"pooling": "attention"},
        {"mix": True},
        {"lstm": 8},
        {"strategy": "norms-biases", "lr": "1e-2", "epochs": 12},
        {"layer_rates": 0.8},
        {"unfreeze": True},
        {"reinit": 1},
        {"language": 0.1},
        {"optimizer": "bert-adam", "schedule": "slanted"},
    ],
    ids=str,
)
def test_every_way_to_tune_learns_and_is_saved(base, reviews, tmp_path, more) -> None:
    summary = tune(base, reviews, tmp_path / "out", **more)
    assert summary["dev"]["accuracy"] > 0.8, summary["dev"]
    loaded = tianci.load(tmp_path / "out")
    rows = read_rows(reviews["dev"], loaded.task.columns())
    right = [
        a["label"] == r.values["label"] for a, r in zip(loaded.predict(rows), rows, strict=True)
    ]
    assert abs(np.mean(right) - summary["dev"]["accuracy"]) < 1e-9


def test_compare_says_whether_it_paid(base, reviews, tmp_path) -> None:
    summary = tune(base, reviews, tmp_path / "out", compare=True, epochs=3)
    found = summary["compare"]
    systems = {(row["labels"], row["system"]) for row in found["rows"]}
    assert systems == {(n, s) for n in (100, 240)
                       for s in ("bag of words", "from scratch", "fine-tuned")}  # fmt: skip
    assert found["sentence"].startswith("Pre-training ")


@pytest.mark.usefixtures("bf16")
def test_the_precision_is_decided_once(base, reviews, tmp_path, monkeypatch) -> None:
    """Another answer of the machine does not change a run that goes on."""
    monkeypatch.setattr(probe, "WIDE", 8)
    monkeypatch.setattr(probe, "bf16_speed", lambda: 2.0)
    monkeypatch.setattr(run, "_finish", lambda *_: {})  # ended before its last files
    settings = Finetune(
        model=str(base), train=str(reviews["train"]), dev=str(reviews["dev"]),
        out=str(tmp_path / "run"), epochs=1,
    )  # fmt: skip
    run.finetune("classify", settings, quiet=True)
    told = json.loads((tmp_path / "run/run.json").read_text())
    assert (
        told["settings"]["precision"] == "bf16" and told["asked"]["settings"]["precision"] == "auto"
    )
    monkeypatch.setattr(probe, "bf16_speed", lambda: 1.0)
    seen = []
    monkeypatch.setattr(run, "_finish", lambda work, *_: seen.append(work.bf16) or {})
    run.finetune("classify", settings, quiet=True)
    run.finetune("classify", settings, quiet=True, resume=str(tmp_path / "run"))
    assert seen == [True, True]


def test_kill_and_resume_give_the_same_bits(base, reviews, tmp_path) -> None:
    """SIGKILL in the middle; the resumed run ends with the weights of an undisturbed one."""
    command = [
        sys.executable, "-m", "tianci", "finetune", "classify", "--model", str(base),
        "--train", str(reviews["train"]), "--dev", str(reviews["dev"]), "--epochs", "6",
        "--lr", "1e-3", "--patience", "0", "--save-every", "7", "--batch", "8", "-q",
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, "--out", str(tmp_path / "whole")], check=True, env=environment,
                   capture_output=True)  # fmt: skip
    broken = tmp_path / "broken"
    process = subprocess.Popen([*command, "--out", str(broken)], env=environment)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list(broken.glob("trials/*/checkpoints/step-*")):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (broken / "scores.json").exists(), "it was killed too late"
    resume = [sys.executable, "-m", "tianci", "finetune", "--resume", str(broken), "-q"]
    subprocess.run(resume, check=True, env=environment, capture_output=True)
    names = ("model.safetensors",)
    assert [checksum(broken / n) for n in names] == [
        checksum(tmp_path / "whole" / n) for n in names
    ]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"strategy": "fulll"}, 'did you mean "full"'),
        ({"strategy": "head+adapters"}, "nothing else learns"),
        ({"strategy": "adapters", "adapter_size": 33}, "the model is only 32 wide"),
        ({"strategy": "head", "reinit": 1}, "the layers do not learn there"),
        ({"strategy": "head", "language": 0.5}, "the layers do not learn there"),
        ({"layers": 9}, "has 2 layers"),
        ({"pooling": "meen"}, 'unknown pooling "meen"'),
        ({"length": 1000}, "reads 64 tokens"),
        ({"metric": "acc"}, "unknown metric"),
        ({"crf": True}, "needs a label per token"),
        ({"lr": "fast"}, "not a number"),
        ({"column": ["body"]}, "is not field=column"),
        ({"epochs": -1}, "more than 0"),
    ],
)
def test_bad_settings_get_one_sentence(base, reviews, tmp_path, more, message) -> None:
    with pytest.raises(UserError, match=message):
        tune(base, reviews, tmp_path / "out", **more)


def test_one_class_stops_the_run(base, tmp_path) -> None:
    lines = [
        json.dumps({"text": f"我们{w}", "label": "+"}, ensure_ascii=False) for w in "天气上人大"
    ]
    (tmp_path / "one.jsonl").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(UserError, match=r"line 1: one class only \(all"):
        tianci.finetune("classify", model=base, train=tmp_path / "one.jsonl", out=tmp_path / "o")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"sweep": ["lr=1e-5,x"]}, '"x" is not a number'),
        ({"sweep": ["batch=8,16"]}, "only lr=A,B,C can be swept"),
        ({"warmup": 2.0}, "--warmup is 2.0"),
        ({"warmup": float("nan")}, "--warmup is nan"),
        ({"epochs": float("nan")}, "--epochs must be more than 0"),
        ({"minutes": float("inf")}, "--minutes must be more than 0"),
        ({"clip": -1.0}, "clip must be 0 or more"),
        ({"weight_decay": float("nan")}, "weight_decay must be 0 or more"),
        ({"language": -0.5}, "language must be 0 or more"),
        ({"save_every": -1}, "save_every must be 0 or more"),
    ],
)
def test_settings_that_cannot_be_are_refused_at_once(wrong, said) -> None:
    with pytest.raises(UserError, match=said):
        Finetune(**wrong)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"layers": 99}, "the model has 2 layers"),
        ({"pooling": "foo"}, "unknown pooling"),
        ({"metric": "foo"}, "unknown metric"),
        ({"crf": True}, "needs a label per token"),
    ],
)
def test_a_refused_command_leaves_nothing_and_can_be_corrected(
    base, reviews, tmp_path, wrong, said
) -> None:
    out = tmp_path / "out"
    with pytest.raises(UserError, match=said):
        tune(base, reviews, out, **wrong)
    assert not out.exists()
    assert tune(base, reviews, out, steps=1)["dev"]  # not: "already holds a run"


def test_a_score_that_needs_both_classes_can_be_the_metric(base, reviews, tmp_path) -> None:
    rows = reviews["dev"].read_text(encoding="utf-8").splitlines()
    rows.sort(key=lambda row: '"+"' in row)  # the first ones have one class
    (tmp_path / "dev.jsonl").write_text("\n".join(rows), encoding="utf-8")
    found = tune(base, reviews, tmp_path / "o", dev=tmp_path / "dev.jsonl", metric="auc", steps=1)
    assert found["metric"] == "auc"


def test_defaults_follow_the_number_of_rows() -> None:
    few, many = Finetune(), Finetune()
    assert (few.batch_rows(200), few.planned_epochs(200)) == (16, 20.0)
    assert (many.batch_rows(20_000), many.planned_epochs(20_000)) == (32, 3.0)
    assert Finetune(lr="auto").rates(256) == [1e-4, 2e-4, 4e-4]
    assert Finetune(sweep=["lr=1e-5,2e-5"]).rates(256) == [1e-5, 2e-5]
    assert Finetune(sweep=["lr=1e-5", "lr=2e-5,1e-5"]).rates(256) == [1e-5, 2e-5]


def test_many_labels_at_once(base, tmp_path) -> None:
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(200):
        marks = [m for m in "天雨国" if rng.integers(2)]
        text = "".join([*marks, *rng.choice(list("我你他们有的"), 5).tolist()])
        rows.append(json.dumps({"text": text, "label": marks}, ensure_ascii=False))
    (tmp_path / "train.jsonl").write_text("\n".join(rows[:160]), encoding="utf-8")
    (tmp_path / "dev.jsonl").write_text("\n".join(rows[160:]), encoding="utf-8")
    summary = tianci.finetune(
        "classify", model=base, train=tmp_path / "train.jsonl", dev=tmp_path / "dev.jsonl",
        out=tmp_path / "out", classify={"many": True},
        pooling="max", **{**FAST, "epochs": 12},
    )  # fmt: skip
    assert summary["metric"] == "micro_f1" and summary["dev"]["micro_f1"] > 0.9
    answer = tianci.load(tmp_path / "out")("雨国我你他们有")
    assert answer["labels"] == ["国", "雨"]


def test_many_labels_that_are_the_same_for_all_rows_are_noticed(tmp_path) -> None:
    lines = [f'{{"text": "{n}", "label": {json.dumps(["a", "b"][: n % 3])}}}' for n in range(12)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    task = make_task("classify", {"many": True, "labels": ["a", "b"]})
    rows = read_rows(tmp_path / "rows.jsonl", task.columns())
    none, one = [np.array([-1.0, -2.0])] * 12, [np.array([1.0, -2.0])] * 12
    assert task.trouble(rows, none, {}) == "it gives no label to all 12 dev rows"
    assert task.trouble(rows, one, {}) == 'it gives "a" to all 12 dev rows'
    assert task.trouble(rows, [*none[:6], *one[:6]], {}) is None
    with pytest.raises(UserError, match=r"a list, not a label; .* --set classify.many=true"):
        read_rows(tmp_path / "rows.jsonl", make_task("classify").columns())


def test_task_tables_survive_json() -> None:
    from tianci.goals.tasks import restore

    task = make_task("classify", {"labels": ["a", "b"], "smoothing": 0.1})
    assert restore(json.loads(json.dumps(task.as_table()))) == task


@pytest.mark.parametrize(
    ("limits", "steps"),
    [({"epochs": 1.0, "steps": 3}, 3), ({"epochs": 1.0, "steps": 10**6, "minutes": 60.0}, None)],
)
def test_the_limit_that_is_reached_first_ends_it(base, reviews, tmp_path, limits, steps) -> None:
    tune(base, reviews, tmp_path / "out", **limits)
    log = (tmp_path / "out" / "trials").glob("*/result.json")
    result = json.loads(next(log).read_text())
    if steps:
        assert result["steps"] == steps
    else:
        assert result["epochs"] == 1.0


def test_an_average_is_judged_and_kept_and_the_steps_stay_as_they_are(
    base, reviews, tmp_path
) -> None:
    losses, weights = [], []
    for name, average in (("last", 0.0), ("average", 0.9)):
        tune(base, reviews, tmp_path / name, epochs=1, average=average, log_every=1)
        log = next((tmp_path / name / "trials").glob("*/log.jsonl")).read_text().splitlines()
        losses.append([e["loss"] for e in map(json.loads, log) if e["event"] == "step"])
        weights.append((tmp_path / name / "model.safetensors").read_bytes())
    assert losses[0] == losses[1] and len(losses[0]) > 3
    assert weights[0] != weights[1]
