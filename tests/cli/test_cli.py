"""The command line as people and their scripts use it: names, JSON fields, exit codes,
one-sentence errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.parity.family import loud
from tianci import checkpoint, cli
from tianci.cli import COMMANDS
from tianci.models import bert
from tianci.text.tokenizer import Tokenizer

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *"今天气不错很好我们去公园",
    "the",
    "cat",
    "##s",
]


def tianci(*arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tianci", *map(str, arguments)],
        input=stdin, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip


def inside(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """The same without a new process: (exit code, standard output, standard error)."""
    with pytest.raises(SystemExit) as stop:
        cli.main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    (folder / "vocab").mkdir()
    (folder / "vocab" / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    config = bert.Config(
        vocabulary=len(WORDS), width=24, layers=2, heads=3, hidden=32, positions=20
    )
    made = checkpoint.create("bert", config, heads=("masked",))
    loud(made.model, 3)
    made.tokenizer = Tokenizer.load(folder / "vocab")
    checkpoint.write(folder / "model", made)
    return folder / "model"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example_and_the_shared_options(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = inside(capsys, name, "--help")
    assert code == 0 and f"Example:\n    tianci {name}" in out
    for option in (
        "--json",
        "--quiet",
        "--seed",
        "--threads",
        "--debug",
        "--set",
        "--print-settings",
    ):
        assert option in out, option


def test_help_lists_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = inside(capsys, "--help")
    assert code == 0
    for name, text in COMMANDS.items():
        assert name in out and text in out


def test_info_of_a_preset(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = inside(capsys, "info", "bert-base", "--json")
    facts = json.loads(out)
    assert code == 0 and facts["family"] == "bert" and facts["parameters"] == 109_482_240
    assert facts["parameters_by_class"]["BertForPreTraining"] == 110_106_428
    assert facts["config"]["heads"] == 12 and facts["bytes"] == 4 * 109_482_240
    assert facts["flops_per_token"]["128"] == 174_587_904
    assert json.loads(inside(capsys, "info", "base", "--json")[1]) == facts
    code, out, _ = inside(capsys, "info", "bert-large")
    assert code == 0 and "335,141,888" in out and "336,226,108" in out


def test_info_of_a_directory(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = inside(capsys, "info", model, "--json")
    facts = json.loads(out)
    assert code == 0 and facts["architecture"] == "BertForMaskedLM"
    assert facts["parameters"] == checkpoint.read(model).parameter_count
    assert facts["tokenizer"] == {"kind": "wordpiece", "size": len(WORDS)}
    assert facts["task"] is None and facts["labels"] is None


def test_fill(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = inside(
        capsys, "fill", model, "今天[MASK]", "[MASK]天[MASK]", "--top", "3", "--json"
    )
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and [len(row) for row in rows] == [1, 2]
    assert all(
        len(mask) == 3 and set(mask[0]) == {"token", "id", "score"} for row in rows for mask in row
    )
    code, out, _ = inside(capsys, "fill", model, "今天[MASK]")
    assert code == 0 and out.startswith("今天[MASK]\n") and out.count("%") == 5


def test_embed(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lines.txt").write_text("今天天气\n\nthe cats\n", encoding="utf-8")
    target = tmp_path / "x.npy"
    code, out, _ = inside(
        capsys, "embed", model, tmp_path / "lines.txt", "--out", target, "--normalize", "--json"
    )
    vectors = np.load(target)
    assert code == 0 and json.loads(out) == {"count": 3, "width": 24, "out": str(target)}
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    result = tianci("embed", model, "-", "--out", target, "--quiet", stdin="the cats\n")
    assert result.returncode == 0, result.stderr
    plain = np.load(target)[0]
    np.testing.assert_allclose(plain / np.linalg.norm(plain), vectors[2], atol=1e-5)


def test_convert(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = inside(capsys, "convert", model, tmp_path / "new", "--json")
    assert code == 0 and json.loads(out)["largest_difference"] < 1e-4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "bert-bsae"], 'did you mean "bert-base"'),
        (["info", "no/where"], "no/where is not a model directory"),
        (["fil", "x"], 'unknown command "fil"; did you mean "fill"'),
        (["fill", "MODEL", "今天"], 'no [MASK] in "今天"'),
        (["fill", "mini", "[MASK]"], "is a preset, which has learned nothing"),
        (["fill", "MODEL", "x[MASK]", "--top", "0"], "--top"),
        (["fill", "MODEL", "[MASK]", "--seed", "-1"], "'--seed': -1 is not in the range"),
        (["evaluate", "MODEL", "no-such-file"], "no-such-file: no such file or directory"),
        (["evaluate", "MODEL", "GOOD", "--objective", "masked"], "is measured on a corpus"),
        (["embed", "MODEL", "no-such-file", "--out", "OUT/x.npy"], "no-such-file"),
        (["embed", "MODEL", "EMPTY", "--out", "OUT/x.npy"], "the file is empty"),
        (["embed", "MODEL", "BAD", "--out", "OUT/x.npy"], "BAD, line 2"),
        (
            ["embed", "MODEL", "GOOD", "--out", "OUT/x.npy", "--pooling", "men"],
            'did you mean "mean"',
        ),
        (["embed", "MODEL", "GOOD", "--out", "OUT/no/x.npy"], "cannot write to"),
        (["convert", "no-such-dir", "OUT/new"], "no-such-dir is not a directory"),
        (["info", "mini", "--set", "train.lr=1"], 'unknown section of settings "train"'),
        (["info"], "MODEL"),
        (["info", "mini", "--colour"], "--colour"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    arguments: list[str],
    message: str,
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "bad.txt").write_bytes("今天\n".encode() + b"\xff\xfe broken\n")
    (tmp_path / "good.txt").write_text("今天\n", encoding="utf-8")
    (tmp_path / "out").mkdir()
    (tmp_path / "empty.txt").write_text("")
    places = {
        "EMPTY": tmp_path / "empty.txt",
        "MODEL": model,
        "BAD": tmp_path / "bad.txt",
        "GOOD": tmp_path / "good.txt",
    }
    real = [str(places.get(a, a)).replace("OUT", str(tmp_path / "out")) for a in arguments]
    code, out, err = inside(capsys, *real)
    text = err if err else out
    assert code == 2
    assert message.replace("BAD", str(tmp_path / "bad.txt")) in text
    assert "Traceback" not in text
    if arguments != ["info"]:  # without arguments the help is shown
        assert len(err.strip().splitlines()) == 1 and err.startswith("tianci: ")
    assert list((tmp_path / "out").iterdir()) == []


def test_debug_shows_the_traceback() -> None:
    result = tianci("info", "no/where", "--debug")
    assert result.returncode == 1 and "Traceback" in result.stderr


def test_a_failure_while_running_is_exit_code_1(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def burn(*_: object, **__: object) -> None:
        raise RuntimeError("the machine is on fire")

    monkeypatch.setattr("tianci.serve.predictor.load", burn)
    code, out, err = inside(capsys, "fill", model, "[MASK]")
    assert (code, out) == (1, "")
    assert err == "tianci: RuntimeError: the machine is on fire (--debug shows where)\n"


def test_a_missing_extra_is_one_line(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['snownlp'] = None\n"
        f"from tianci.cli import main; main(['demo', '--out', {str(tmp_path / 'demo')!r}])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert result.stderr == "tianci: this needs: pip install 'tianci[demo]'\n"
    assert not (tmp_path / "demo").exists()


def test_print_settings_shows_what_a_recipe_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("[train]\nlr = 3e-5\nsteps = 7\n")
    code, out, _ = inside(capsys, "pretrain", recipe, "--steps", "9", "--print-settings")
    assert code == 0 and "\nlr = 3e-05" in out and "\nsteps = 9" in out
    recipe.write_text("[finetune]\nlr = '5e-5'\nbatch = 24\n")
    code, out, _ = inside(capsys, "finetune", "pair", "--recipe", recipe, "--print-settings")
    assert code == 0 and '\nlr = "5e-5"' in out and "\nbatch = 24" in out
    code, _, said = inside(capsys, "finetune", "--recipe", recipe, "--settings", recipe)
    assert code == 2 and "give one of them" in said


def test_print_settings_can_be_given_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = inside(capsys, "pretrain", "--lr", "3e-5", "--print-settings")
    assert code == 0 and "lr = 3e-05  # peak learning rate" in out
    (tmp_path / "a.toml").write_text(out)
    code, again, _ = inside(
        capsys, "pretrain", "--settings", tmp_path / "a.toml", "--print-settings"
    )
    assert code == 0 and again == out


def test_a_reader_that_goes_away() -> None:
    command = f"{sys.executable} -m tianci --help | head -1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Usage" in result.stdout and "Traceback" not in result.stderr
