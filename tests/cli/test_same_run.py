"""The same seed gives the same run: every command twice, all bytes compared.

Each command has an entry: how it is called in a directory of its own. What may differ is written
down in MAY_DIFFER, with the reason; docs/reliability.md says the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.train.conftest import write_text
from tests.tune.conftest import write_rows
from tianci import cli
from tianci.cli import COMMANDS

Calls = list[list[str]]
TINY = "--set model.width=16 --set model.layers=1 --set model.heads=2 --set model.hidden=32"
# a line of the log for each step: else it is one for each second
TRAIN = (
    "--steps 4 --save-every 2 --log-every 1 --length 32 --set train.batch_tokens=256 "
    "--set model.positions=32"
)


def words(text: str) -> list[str]:
    return text.split()


def pretrain(out: str, family: str = "bert") -> list[str]:
    sizes = words(f"{TINY} {TRAIN}")
    return ["pretrain", "--corpus", "../in/store", "--preset", f"{family}-tiny", *sizes,
            "--set", "train.precision=float32", "--out", out]  # fmt: skip


FINETUNE = words(
    "finetune classify --model ../in/bert --train ../in/train.jsonl --dev ../in/dev.jsonl "
    "--test ../in/test.jsonl --epochs 1 --seeds 2 --log-every 1 --out run"
)
# name -> calls, made in a new directory beside `in`, which holds what earlier commands wrote
ENTRIES: dict[str, Calls] = {
    "info": [words("info ../in/bert"), words("info ../in/bert --json")],
    "vocab": [words(f"vocab ../in/text.txt --kind {kind} --size {size} --out {kind} --json")
              for kind, size in (("char", 45), ("wordpiece", 45), ("byte-bpe", 300))],
    "tokenize": [words("tokenize ../in/vocab 今天去公园 --json")],
    "prepare": [words("prepare ../in/text.txt --tokenizer ../in/vocab --held 0.1 --no-estimate "
                      "--out store")],
    "audit": [words("audit ../in/store --objective masked+next_sentence --tokens 5000")],
    "pretrain": [pretrain("run"), pretrain("gpt2", "gpt2")],
    "finetune": [FINETUNE],
    "predict": [words("predict ../in/tuned ../in/dev.jsonl --out answers.jsonl"),
                words("predict ../in/tuned ../in/dev.jsonl")],
    "check": [words("check ../in/train.jsonl ../in/dev.jsonl --task classify --json")],
    "search": [words("search ../in/bert ../in/text.txt 今天 --vectors x.npy --json")],
    "compare": [words("compare ../in/recipe.toml --out table --quiet --json")],
    "evaluate": [words("evaluate ../in/tuned ../in/dev.jsonl --json"),
                 words("evaluate ../in/bert ../in/store --length 32 --json")],
    "fill": [words("fill ../in/bert 今天[MASK]公园 --json")],
    "score": [words("score ../in/bert 今天去公园 --json")],
    "generate": [words("generate ../in/gpt2 今天 --max-new-tokens 8 --seed 3 --json")],
    "rank": [words("rank ../in/gpt2 今天 公园 学校 --json")],
    "embed": [words("embed ../in/bert ../in/text.txt --out x.npy --json")],
    "convert": [words("convert ../in/pickled safe --json")],
    "export": [words("export ../in/tuned --onnx --out bundle --json")],
}  # fmt: skip
# commands without a result that could be compared, and where they are tried
LEFT_OUT = {
    "serve": "answers requests; its answers are those of predict, fill, ... (tests/serve)",
    "page": "shows what others wrote",
    "doctor": "describes the machine of this moment; its training is compared with its resumption",
    "verify": "reads only",
    "demo": "vocab, prepare, pretrain and finetune by the clock (--minutes): the number of steps "
    "depends on the machine",
}
# how a file is read before it is compared: what is a time or a speed is taken out
TIMES = re.compile(
    r'"(?:[a-z_]*(?:seconds|minutes|time|per_second|started|ended|elapsed|eta|date|peak_mb|'
    r'tokens_per_second|utilization|flops|share_of_peak|memory_mb|speed|began|finished))": '
    r'(?:"[^"]*"|[-\d.e+]+|null)'
)


# the same in sentences: "12,347 tokens/s", "0.2 s, 0.1 MB/s", "1% of this machine's ..."
SAID = re.compile(
    r"[\d.,]+ ?(?=(?:s|ms|MB/s|tokens/s|minutes?)\b|% of this machine)"
    r"|(?<=tokens per second \| )[\d,]+"
)


def timeless(text: str) -> str:
    """A text without the times and speeds in it."""
    return SAID.sub("0 ", TIMES.sub('"time": 0', text))


def plain(path: Path, folder: Path) -> bytes:
    """The bytes of a file without the times in it."""
    content = path.read_bytes()
    if path.suffix in (".json", ".jsonl", ".toml", ".md"):
        content = timeless(content.decode()).encode()
    return content.replace(str(folder).encode(), b"HERE")


# pages that show times and speeds in places where no rule would find them; and the hashes of files,
# texts with times in them too (the files themselves are compared)
MAY_DIFFER = ("report.html", "compare.md", "compare.html", "manifest.json")


def snapshot(folder: Path) -> dict[str, str]:
    """All files of a directory and the hash of what is in them."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in MAY_DIFFER:
            name = str(path.relative_to(folder))
            found[name] = hashlib.sha256(plain(path, folder)).hexdigest()
    return found


def call_inside(
    calls: Calls, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """Standard output of the calls, made in a directory of that name."""
    folder.mkdir()
    monkeypatch.chdir(folder)
    capsys.readouterr()
    for arguments in calls:
        with pytest.raises(SystemExit) as stop:
            cli.main(arguments)
        out, err = capsys.readouterr()
        assert not stop.value.code, (arguments, err)
        print(out, end="")
    return timeless(capsys.readouterr().out)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands read: text, rows, a vocabulary, a store, models."""
    import torch

    folder = tmp_path_factory.mktemp("same")
    place = folder / "in"
    place.mkdir()
    write_text(place / "text.txt", 40)
    for seed, name in enumerate(("train", "dev", "test")):
        write_rows(place / f"{name}.jsonl", 24, seed)
    before = os.getcwd()
    os.chdir(place)
    try:
        for arguments in (
            words("vocab text.txt --kind char --size 45 --out vocab -q"),
            words("prepare text.txt --tokenizer vocab --held 0.1 --out store -q"),
            [*pretrain("bert"), "-q"],
            [*pretrain("gpt2", "gpt2"), "-q"],
            [*FINETUNE[:-1], "tuned", "-q"],
        ):
            with pytest.raises(SystemExit) as stop:
                cli.main([a.replace("../in/", "") for a in arguments])
            assert not stop.value.code, arguments
        from safetensors.torch import load_file

        (place / "pickled").mkdir()
        for name in ("config.json", "vocab.txt", "tokenizer.json", "tokenizer_config.json"):
            if (place / "bert" / name).exists():
                (place / "pickled" / name).write_bytes((place / "bert" / name).read_bytes())
        torch.save(load_file(place / "bert/model.safetensors"), place / "pickled/pytorch_model.bin")
    finally:
        os.chdir(before)
    (place / "recipe.toml").write_text(RECIPE.replace("DATA", str(place)), encoding="utf-8")
    return folder


RECIPE = """
[compare]
title = "two"
data = "DATA"
text = ["text.txt"]
steps = 3
seeds = 1
[vocab]
kind = "char"
size = 45
hold_back = 0.0
[prepare]
layout = "lines"
borders = "blank"
held = 0.1
[train]
length = 32
batch_tokens = 256
log_every = 1
[finetune]
epochs = 1
lr = "3e-3"
log_every = 1
[[model]]
name = "BERT"
preset = "bert-tiny"
sizes = {width = 16, layers = 1, heads = 2, hidden = 32, positions = 64}
[[task]]
name = "reviews"
task = "classify"
train = "train.jsonl"
dev = "dev.jsonl"
test = "test.jsonl"
"""


def test_every_command_has_an_entry() -> None:
    assert set(COMMANDS) <= {*ENTRIES, *LEFT_OUT}, "say how the new command is called twice"
    assert not set(ENTRIES) & set(LEFT_OUT)


@pytest.mark.parametrize("name", ENTRIES)
def test_twice_the_same(
    name: str, given: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = given / f"{name}-1", given / f"{name}-2"
    said = [call_inside(ENTRIES[name], folder, monkeypatch, capsys) for folder in (first, second)]
    assert said[0].replace(str(first), "HERE") == said[1].replace(str(second), "HERE")
    one, other = snapshot(first), snapshot(second)
    assert one.keys() == other.keys()
    assert [file for file in one if one[file] != other[file]] == []
    assert said[0] or one


CHILD = """
import json, os, sys
from pathlib import Path
from tianci import cli
for name, calls in json.loads(sys.argv[1]).items():
    Path(name).mkdir()
    os.chdir(name)
    for call in calls:
        try:
            cli.main(call)
        except SystemExit as stop:
            assert not stop.code, (call, stop.code)
    os.chdir("..")
"""


def test_the_order_of_sets_and_dictionaries_does_not_matter(
    given: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {f"{name}-3": ENTRIES[name] for name in ("vocab", "prepare", "pretrain", "finetune")}
    assert os.environ.get("PYTHONHASHSEED") != "4711"
    child = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(asked)],
        capture_output=True, text=True, check=False, cwd=given, timeout=300,
        env={**os.environ, "PYTHONHASHSEED": "4711"},
    )  # fmt: skip
    assert child.returncode == 0, child.stderr[-2000:]
    for name in ("vocab", "prepare", "pretrain", "finetune"):
        if not (given / f"{name}-1").exists():
            call_inside(ENTRIES[name], given / f"{name}-1", monkeypatch, capsys)
        assert snapshot(given / f"{name}-3") == snapshot(given / f"{name}-1")


def test_a_difference_is_seen(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"loss": 3.5, "seconds": 1.25}\n')
    before = snapshot(tmp_path)
    (tmp_path / "log.jsonl").write_text('{"loss": 3.5, "seconds": 1.5}\n')
    assert snapshot(tmp_path) == before
    (tmp_path / "log.jsonl").write_text('{"loss": 3.6, "seconds": 1.25}\n')
    assert snapshot(tmp_path) != before
    assert (
        timeless("4 steps in 0.2 s: 12,347 tokens/s, loss 3.7")
        == timeless("4 steps in 0.3 s: 9,347 tokens/s, loss 3.7")
        != timeless("4 steps in 0.3 s: 9,347 tokens/s, loss 3.8")
    )
