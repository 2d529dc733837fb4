"""Whole runs on a small corpus: learning, going on after a kill to the same bits, several
processes."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tianci import manifest
from tianci.data.prepare import prepare
from tianci.errors import UserError
from tianci.serve.predictor import load
from tianci.train import state
from tianci.train.estimate import evaluations
from tianci.train.pretrain import pretrain
from tianci.train.settings import Pretrain, Train
from tianci.train.verdict import verdict

GAP = "我今[MASK]去公园读书，公园的书很好。"
SIZES = {"width": 64, "layers": 2, "heads": 2, "hidden": 128, "positions": 64}


def command(corpus: Path, out: Path, *more: str) -> list[str]:
    sizes = [part for name, value in SIZES.items() for part in ("--set", f"model.{name}={value}")]
    return [
        sys.executable, "-m", "tianci", "pretrain", "--corpus", str(corpus), "--preset", "tiny",
        "--length", "48", "--batch-tokens", "512", "--out", str(out), "--quiet", "--json",
        *sizes, *more,
    ]  # fmt: skip


def run(corpus: Path, out: Path, **train: object) -> dict[str, object]:
    values = {"length": 48, "batch_tokens": 512, **train}
    sections = {
        "pretrain": Pretrain(corpus=str(corpus), preset="tiny", out=str(out)),
        "train": Train(**values),  # type: ignore[arg-type]
        "model": SIZES,
    }
    return pretrain(sections, quiet=True)


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def trained(
    corpus: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, object]]:
    out = tmp_path_factory.mktemp("run") / "model"
    return out, run(corpus, out, steps=400, lr=5e-3)


def test_held_out_text_takes_little_of_a_run(corpus: Path, tmp_path: Path) -> None:
    assert [evaluations(run, 1.0) for run in (1, 20, 99, 140, 200, 10**9)] == [2, 2, 9, 14, 20, 20]
    for steps, most in ((6, 3), (200, 21)):
        run(corpus, tmp_path / str(steps), steps=steps)
        log = (tmp_path / str(steps) / "log.jsonl").read_text().splitlines()
        held = [e["step"] for e in map(json.loads, log) if e["event"] == "held"]
        assert held[0] == 2 and held[-1] == steps and len(held) <= most
    assert len(held) > 5  # the long one can afford more


def test_it_learns(trained: tuple[Path, dict[str, object]]) -> None:
    out, summary = trained
    held = summary["held"]
    assert held["masked"]["loss"] < float(str(summary["unigram_entropy"])) - 1.5
    assert summary["steps"] == 400 and summary["tokens_per_second"] > 0
    assert str(summary["verdict"]).startswith("it has learned")
    best = load(out).fill(GAP, top=1)[0][0]
    assert best["token"] == "天" and best["score"] > 0.5
    entries = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    events = [e["event"] for e in entries]
    assert events[0] == "start" and events[-1] == "end" and "held" in events
    steps = [e["step"] for e in entries if e["event"] == "step"]
    assert steps == sorted(steps) and steps[-1] == 400
    assert (out / "report.html").stat().st_size > 1000


def test_transformers_loads_the_result(trained: tuple[Path, dict[str, object]]) -> None:
    transformers = pytest.importorskip("transformers")
    out, _ = trained
    for name in ("BertForPreTraining", "BertForMaskedLM"):
        model, report = getattr(transformers, name).from_pretrained(out, output_loading_info=True)
        assert not report["missing_keys"]
    pipe = transformers.pipeline("fill-mask", model=str(out), top_k=1)
    assert abs(pipe(GAP)[0]["score"] - load(out).fill(GAP, top=1)[0][0]["score"]) < 1e-5


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_kill_9_and_resume_gives_the_same_bits(
    corpus: Path, tmp_path: Path, precision: str, request: pytest.FixtureRequest
) -> None:
    if precision == "bf16":
        request.getfixturevalue("bf16")
    more = ["--steps", "40", "--save-every", "7", "--dropout", "0.1", "--precision", precision]
    subprocess.run(command(corpus, tmp_path / "whole", *more), check=True, capture_output=True)
    process = subprocess.Popen(
        command(corpus, tmp_path / "killed", *more), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while not (tmp_path / "killed/checkpoints/step-00000014").exists():
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        time.sleep(0.01)
    process.kill()
    process.wait()
    left = state.complete(tmp_path / "killed")
    assert left and not manifest.faults(left[-1])
    # a half-written checkpoint beside the whole ones, as a kill at the worst moment leaves it
    shutil.copytree(left[-1], tmp_path / "killed/checkpoints/step-00000099")
    (tmp_path / "killed/checkpoints/step-00000099/manifest.json").unlink()
    resumed = subprocess.run(
        [sys.executable, "-m", "tianci", "pretrain", "--quiet", "--resume", tmp_path / "killed"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert resumed.returncode == 0, resumed.stderr
    assert weights(tmp_path / "killed") == weights(tmp_path / "whole")
    moments = "checkpoints/step-00000040/resume/optimizer.safetensors"
    assert (tmp_path / "killed" / moments).read_bytes() == (
        tmp_path / "whole" / moments
    ).read_bytes()
    steps = [
        json.loads(line)["step"]
        for line in (tmp_path / "killed/log.jsonl").read_text().splitlines()
        if '"step", "step"' in line
    ]
    assert steps == sorted(set(steps)) and steps[-1] == 40


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_says_how_to_go_on(corpus: Path, tmp_path: Path, number: int) -> None:
    process = subprocess.Popen(
        command(corpus, tmp_path / "run", "--minutes", "5"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while (
        not (tmp_path / "run/log.jsonl").exists()
        or '"event": "step"' not in (tmp_path / "run/log.jsonl").read_text()
    ):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert f"go on with: tianci pretrain --resume {tmp_path / 'run'}" in error
    assert "Traceback" not in error
    assert state.newest(tmp_path / "run")


def test_damaged_checkpoint_is_passed_over(corpus: Path, tmp_path: Path) -> None:
    run(corpus, tmp_path / "run", steps=4, save_every=2)
    folders = state.complete(tmp_path / "run")
    with open(folders[-1] / "model.safetensors", "r+b") as file:
        file.seek(-8, os.SEEK_END)
        file.write(b"\xff" * 8)
    assert state.newest(tmp_path / "run") == folders[-2]


def test_several_processes_give_the_same_losses(corpus: Path, tmp_path: Path) -> None:
    """The same global batches on one process and on two: equal loss curves, equal weights
    nearly."""
    more = ["--steps", "12", "--dropout", "0", "--threads", "1", "--evaluate-every", "2"]
    subprocess.run(command(corpus, tmp_path / "one", *more), check=True, capture_output=True)
    two = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
        *command(corpus, tmp_path / "two", *more)[1:],
    ]  # fmt: skip
    result = subprocess.run(two, capture_output=True, text=True, check=False, timeout=400)
    assert result.returncode == 0, result.stderr[-2000:]
    assert json.loads(result.stdout.strip().splitlines()[-1])["steps"] == 12
    ours, theirs = (losses(tmp_path / name) for name in ("one", "two"))
    assert ours.keys() == theirs.keys() == {2, 4, 6, 8, 10, 12}
    assert max(abs(ours[s] - theirs[s]) for s in ours) < 1e-5


def losses(folder: Path) -> dict[int, float]:
    """Held-out losses by step: they show every difference in the weights."""
    found = {}
    for line in (folder / "log.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if entry["event"] == "held":
            found[entry["step"]] = entry["held"]["masked"]["loss"]
    return found


def test_accumulation_changes_nothing(corpus: Path, tmp_path: Path) -> None:
    values = {"steps": 8, "dropout": 0.0, "log_every": 1}  # else the loss is that of a second
    whole = run(corpus, tmp_path / "whole", **values)
    pieces = run(corpus, tmp_path / "pieces", **values, micro_tokens=100)
    assert abs(float(str(whole["loss"])) - float(str(pieces["loss"]))) < 1e-4


def test_epochs_move_the_rate_also_in_a_small_corpus(corpus: Path, tmp_path: Path) -> None:
    def rates(out: Path, **values: object) -> tuple[int, list[float]]:
        summary = run(corpus, out, lr=0.01, warmup=0.1, log_every=1, **values)
        entries = map(json.loads, (out / "log.jsonl").read_text().splitlines())
        return int(str(summary["steps"])), [e["lr"] for e in entries if e["event"] == "step"]

    steps, half = rates(tmp_path / "half", epochs=0.5, length=32)
    assert max(half) > 0.009 and half[-1] < 0.001  # it rises and falls
    more, longer = rates(tmp_path / "longer", epochs=0.5, length=32, last_length=64, last_share=0.3)
    peak = longer.index(max(longer))
    assert longer[peak:] == sorted(longer[peak:], reverse=True)  # the last part begins nothing anew
    assert 0.8 * steps < more < 1.2 * steps


def test_longer_sequences_at_the_end(corpus: Path, tmp_path: Path) -> None:
    run(corpus, tmp_path / "run", steps=20, length=16, last_length=64, last_share=0.25)
    saved = json.loads(
        next((tmp_path / "run/checkpoints").iterdir()).joinpath("resume/state.json").read_text()
    )
    assert saved["phase"] == 1


@pytest.mark.parametrize(
    ("last", "message"),
    [(65, "train.last_length is 65, but the model reads 64"), (3, "3 tokens is too short")],
)
def test_a_wrong_last_length_is_told_before_the_first_step(
    corpus: Path, tmp_path: Path, last: int, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        run(corpus, tmp_path / "run", steps=20, length=16, last_length=last)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("limit", [{"epochs": 0.2}, {"tokens": 3000}, {"minutes": 0.02}])
def test_other_limits(corpus: Path, tmp_path: Path, limit: dict[str, float]) -> None:
    summary = run(corpus, tmp_path / "run", **limit)
    assert int(str(summary["steps"])) >= 1
    if "tokens" in limit:
        assert 3000 <= int(str(summary["tokens"])) < 3000 + 1024


def test_going_on_from_another_model(
    corpus: Path, trained: tuple[Path, dict[str, object]], tmp_path: Path
) -> None:
    sections = {
        "pretrain": Pretrain(
            corpus=str(corpus), out=str(tmp_path / "more"), start_from=str(trained[0])
        ),
        "train": Train(steps=5, lr=1e-5, length=48, batch_tokens=512),
    }
    summary = pretrain(sections, quiet=True)
    before = trained[1]["held"]["masked"]["loss"]  # type: ignore[index]
    assert (
        abs(summary["held"]["masked"]["loss"] - before) < 0.1
    )  # it goes on from there, not from scratch


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"corpus": ""}, "give --corpus and --out"),
        ({"out": ""}, "give --corpus and --out"),
        ({"corpus": "nowhere"}, "nowhere: no such directory"),
        ({"preset": "minni"}, 'unknown preset "minni"'),
        ({"start_from": "bert-mini"}, '"bert-mini" is a preset, which has learned nothing'),
        ({"objective": "maskd"}, 'unknown objective "maskd"; did you mean "masked"'),
        ({"objective": "masked+masked"}, "names an objective twice"),
        ({"objective": "next_sentence+sentence_order"}, "only one objective may decide"),
    ],
)
def test_bad_wishes(corpus: Path, tmp_path: Path, change: dict[str, str], message: str) -> None:
    values = {"corpus": str(corpus), "preset": "tiny", "out": str(tmp_path / "out"), **change}
    with pytest.raises(UserError, match=message):
        pretrain({"pretrain": Pretrain(**values), "train": Train(steps=1, length=48)}, quiet=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"vocabulary": 10}, "model.vocabulary is 10, but the corpus was prepared with"),
        ({"segments": 1}, "knows one segment, but masked.next_sentence needs two"),
    ],
)
def test_a_model_that_does_not_fit(
    corpus: Path, tmp_path: Path, sizes: dict[str, int], message: str
) -> None:
    wanted = Pretrain(corpus=str(corpus), preset="tiny", out=str(tmp_path / "out"))
    with pytest.raises(UserError, match=message):
        pretrain({"pretrain": wanted, "train": Train(steps=1), "model": sizes}, quiet=True)
    assert not (tmp_path / "out").exists()


def test_sizes_are_those_of_the_model_to_go_on_from(
    corpus: Path, trained: tuple[Path, dict[str, object]], tmp_path: Path
) -> None:
    wanted = Pretrain(str(corpus), out=str(tmp_path / "out"), start_from=str(trained[0]))
    with pytest.raises(UserError, match="model.layers is a size of a new model"):
        pretrain({"pretrain": wanted, "train": Train(steps=1), "model": {"layers": 3}}, quiet=True)
    wanted = dataclasses.replace(wanted, preset="small")
    with pytest.raises(UserError, match="--preset small is a bert with 4 layers, 512 wide"):
        pretrain({"pretrain": wanted, "train": Train(steps=1)}, quiet=True)
    assert not (tmp_path / "out").exists()


def test_a_preset_of_the_same_sizes_may_stand_beside_from(corpus: Path, tmp_path: Path) -> None:
    train = Train(steps=1, length=48, batch_tokens=512)
    for start, out in (("", "one"), (str(tmp_path / "one"), "two")):
        wanted = Pretrain(str(corpus), "tiny", out=str(tmp_path / out), start_from=start)
        assert pretrain({"pretrain": wanted, "train": train}, quiet=True)["steps"] == 1


def test_text_that_cannot_be_used_leaves_nothing_behind(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("我今天去公园读书，公园的书很好。\n" * 20)
    prepare([tmp_path / "text"], corpus / "tokenizer", tmp_path / "one")
    with pytest.raises(UserError, match="next_sentence needs at least two documents"):
        run(tmp_path / "one", tmp_path / "run", steps=1)
    with pytest.raises(UserError, match="packing full fills sequences across documents"):
        run(corpus, tmp_path / "run", steps=1, packing="full")
    assert not (tmp_path / "run").exists()  # else the next try would be told to go on with it
    run(corpus, tmp_path / "run", steps=1)


def test_a_run_wants_a_place_of_its_own_and_the_same_text(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "README.md").write_text("mine")
    with pytest.raises(UserError, match="file is a file"):
        run(corpus, tmp_path / "file", steps=1)
    with pytest.raises(UserError, match="full holds other files"):
        run(corpus, tmp_path / "full", steps=1)
    shutil.copytree(corpus, tmp_path / "copy")
    run(tmp_path / "copy", tmp_path / "run", steps=2, save_every=1)
    with pytest.raises(UserError, match="is finished; to learn on from it"):
        pretrain({}, resume=str(tmp_path / "run"), quiet=True)
    (tmp_path / "run" / "model.safetensors").unlink()  # as if killed just before the end
    pretrain({}, resume=str(tmp_path / "run"), quiet=True)
    assert (tmp_path / "run" / "model.safetensors").exists()
    (tmp_path / "run" / "model.safetensors").unlink()
    store = tmp_path / "copy" / "corpus.json"
    manifest.write_sealed(store, {**manifest.read_sealed(store), "other": 1})
    with pytest.raises(UserError, match="is not as it was when"):
        pretrain({}, resume=str(tmp_path / "run"), quiet=True)


def test_settings_given_with_resume(corpus: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(command(corpus, tmp_path / "run", "--steps", "150"))
    while not (tmp_path / "run" / "log.jsonl").exists():
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 143
    wanted = {"pretrain": Pretrain(), "model": {}}
    for train, message in (
        (Train(steps=500), "train.steps was 150, not 500"),
        (Train(lr=0.1), "it was started without train.lr = 0.1"),
    ):
        with pytest.raises(UserError, match=message):
            pretrain({**wanted, "train": train}, resume=str(tmp_path / "run"), quiet=True)
    with pytest.raises(UserError, match="was begun with --seed 0, not 3"):
        pretrain({**wanted, "train": Train()}, seed=3, resume=str(tmp_path / "run"), quiet=True)
    smaller = {**wanted, "train": Train(steps=150, micro_tokens=256, save_every=140)}
    summary = pretrain(smaller, resume=str(tmp_path / "run"), quiet=True)
    assert summary["steps"] == 150
    events = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").open()]
    assert 140 in [e["step"] for e in events if e["event"] == "save"]


def test_a_run_is_not_overwritten(corpus: Path, trained: tuple[Path, dict[str, object]]) -> None:
    with pytest.raises(UserError, match="already holds a run; go on with --resume"):
        run(corpus, trained[0], steps=1)
    with pytest.raises(UserError, match="holds no run that could go on"):
        pretrain({}, resume=str(corpus), quiet=True)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"steps": 0}, "--steps must be more than 0"),
        ({"lr": 2.0}, "train.lr is 2.0, but must lie between 0 and 1"),
        ({"warmup": 1.0}, "train.warmup is 1.0"),
        ({"batch_tokens": 0}, "train.batch_tokens must be at least 1"),
        ({"minutes": math.nan}, "--minutes must be more than 0, not nan"),
        ({"epochs": math.inf}, "--epochs must be more than 0, not inf"),
        ({"clip": math.nan}, "train.clip is nan, but must be 0 or more"),
        ({"weight_decay": -1.0}, "train.weight_decay is -1.0, but must be 0 or more"),
        ({"beta1": 1.0}, "train.beta1 is 1.0, but must be at least 0 and below 1"),
        ({"save_every": -1}, "train.save_every must not be negative, but is -1"),
    ],
)
def test_bad_training_settings(values: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Train(**values)  # type: ignore[arg-type]


def test_two_limits(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--steps and --minutes both say when to stop"):
        run(corpus, tmp_path / "out", steps=3, minutes=1)
    assert not (tmp_path / "out").exists()


def test_verdicts() -> None:
    def say(loss: float) -> str:
        return verdict({"masked": {"loss": loss, "accuracy": 0.5}}, unigram=6.0, bigram=4.0)

    assert say(5.95).startswith("it has not begun")
    assert say(5.0).startswith("it has learned something")
    assert say(3.9).startswith("it has learned")
    assert verdict({}, 6.0, 4.0) == "no held-out text to judge on"


def test_the_python_function_takes_the_same_names(corpus: Path, tmp_path: Path) -> None:
    import tianci

    summary = tianci.pretrain(
        corpus=corpus, preset="tiny", out=tmp_path / "run", steps=2, length=48, objective="masked",
        model=SIZES, masked={"rate": 0.3},
    )  # fmt: skip
    assert summary["steps"] == 2
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert record["settings"]["masked"] == {"rate": 0.3}
    with pytest.raises(UserError, match='unknown argument "step"; did you mean "steps"'):
        tianci.pretrain(corpus=corpus, step=2)


def test_other_threads_are_told(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sums are added in another order then: the bits will differ, and nobody would know why."""
    threads = torch.get_num_threads()
    run(corpus, tmp_path / "run", steps=2, save_every=1)
    capsys.readouterr()
    try:
        for now in (threads, threads + 1):
            (tmp_path / "run" / "model.safetensors").unlink()  # as if killed just before the end
            torch.set_num_threads(now)
            pretrain({}, resume=str(tmp_path / "run"))
            said = capsys.readouterr().err
            assert (f"had {threads} threads before, now {now}" in said) == (now != threads)
    finally:
        torch.set_num_threads(threads)
