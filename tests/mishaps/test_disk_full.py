"""The disk ends: old results stay whole, nothing half-written is left, one sentence says it.

Each command runs in a child that may write files of a limited size (RLIMIT_FSIZE), and, where this
account may mount one, on a small tmpfs that is really full.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mishaps.conftest import SIZES, Train
from tianci import cli, manifest, room
from tianci.data.corpus import Corpus
from tianci.errors import Failed, UserError
from tianci.files import write_directory, write_file
from tianci.train import state
from tianci.train.journal import Journal

ROOT = Path(__file__).resolve().parent.parent.parent
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}

# commands one after the other in one process (starting Python takes longest), each with a limit
CHILD = """
import json, os, resource, sys
from tianci import cli
for limit, arguments in json.loads(sys.argv[1]):
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    print("== begin", file=sys.stderr, flush=True)
    try:
        cli.main(arguments)
    except SystemExit as end:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        print("== exit", end.code, file=sys.stderr, flush=True)
"""


def call(*commands: tuple[int, list[str]]) -> list[tuple[int, str]]:
    """Exit code and words of each command."""
    import json

    done = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(commands)],
        capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    parts = done.stderr.split("== begin\n")[1:]
    assert len(parts) == len(commands), done.stderr
    return [(int(part.rpartition("== exit ")[2]), part.rpartition("== exit ")[0]) for part in parts]


def told(words: str, path: Path) -> None:
    """One sentence with the path and the bytes, and no traceback."""
    assert "Traceback" not in words
    [line] = [line for line in words.splitlines() if line.startswith("tianci: ")]
    assert str(path) in line and "bytes were needed" in line and "are free" in line


def names(folder: Path) -> set[str]:
    """Everything below a folder, also what is hidden."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)],
        capture_output=True, check=False,
    ) if shutil.which("mount") else None  # fmt: skip
    if mounted is None or mounted.returncode:
        pytest.skip("this account may not mount a tmpfs")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path, leave: int) -> None:
    """Leaves so many bytes of a file system."""
    free = room.free_bytes(place)
    assert free is not None
    (place / "filler").write_bytes(bytes(max(0, free - leave)))


def test_every_command_that_writes(base: Path, corpus: Path, tmp_path: Path) -> None:
    """vocab, prepare, convert, export, embed, finetune and pretrain under a limit of file sizes."""
    text = tmp_path / "text.txt"
    text.write_text("今天天气很好，我们去公园看书。\n\n" * 3000, encoding="utf-8")
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f'{{"text": "天{n}", "label": "{n % 2}"}}\n' for n in range(40)))
    vocabulary, model = str(corpus / "tokenizer"), str(base)
    where = {n: tmp_path / n for n in ("v", "p", "c", "e", "x.npy", "f", "t")}
    sizes = [part for name, value in SIZES.items() for part in ("--set", f"model.{name}={value}")]
    commands: dict[str, tuple[int, list[str]]] = {
        "v": (300, ["vocab", str(text), "--size", "19", "--kind", "char", "--out"]),
        "p": (40_000, ["prepare", str(text), "--tokenizer", vocabulary, "--threads", "1", "--out"]),
        "c": (9_000, ["convert", model]),
        "e": (9_000, ["export", model, "--onnx", "--out"]),
        "x.npy": (3_000, ["embed", model, str(text), "--out"]),
        "f": (60_000, ["finetune", "classify", "--model", model, "--train", str(rows), "--dev",
                       str(rows), "--force", "--epochs", "1", "--out"]),
        "t": (60_000, ["pretrain", "--corpus", str(corpus), "--preset", "tiny", "--steps", "4",
                       "--length", "48", "--save-every", "2", *sizes, "--out"]),
    }  # fmt: skip
    answers = call(
        *((limit, [*words, str(where[name]), "-q"]) for name, (limit, words) in commands.items())
    )
    for name, (code, words) in zip(commands, answers, strict=True):
        assert code == 1, (name, words)
        told(words, where[name])
    for name in ("v", "c", "e", "x.npy"):
        assert not where[name].exists(), name
    left = {path for path in names(tmp_path) if Path(path).name.startswith(".")}
    assert not left  # nothing half-written, nothing hidden
    assert not list(where["p"].glob("*/tokens.bin")) and not (where["p"] / "corpus.json").exists()
    for name in ("f", "t"):
        assert not list(where[name].rglob("model.safetensors"))
    # with room, the same commands finish what they had begun
    [(code, words)] = call((0, [*commands["p"][1], str(where["p"]), "-q"]))
    assert code == 0, words
    Corpus(where["p"]).check()


def test_a_full_disk_during_a_save_keeps_the_checkpoint(
    train: Train, full_disk: Path, tmp_path: Path
) -> None:
    """The room for a second checkpoint is missing; later there is room, and the run goes on."""
    run = full_disk / "run"
    kept = state.save
    calls: list[int] = []

    def filling(*arguments: object, **more: object) -> Path:
        calls.append(1)
        if len(calls) == 2:
            fill(full_disk, 30_000)
        return kept(*arguments, **more)  # type: ignore[arg-type]

    values = {"steps": 6, "save_every": 2, "keep": 5}
    train(tmp_path / "whole", **values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "save", filling)
        with pytest.raises(Failed) as raised:
            train(run, **values)
    message = str(raised.value)
    assert str(run / "checkpoints/step-00000004") in message and "\n" not in message
    assert "no space is left on the disk" in message and "bytes were needed" in message
    assert cli._complain(raised.value) == 1
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-00000002"]
    assert manifest.faults(run / "checkpoints/step-00000002") == []
    (full_disk / "filler").unlink()
    train(resume=run)
    weights = "model.safetensors"
    assert (run / weights).read_bytes() == (tmp_path / "whole" / weights).read_bytes()


@pytest.mark.parametrize("leave", [0, 5_000, 200_000])
def test_a_directory_is_whole_or_absent_on_a_full_disk(full_disk: Path, leave: int) -> None:
    """Written without knowing the size before, so that the disk ends in the middle."""
    with write_directory(full_disk / "old") as beside:
        (beside / "a").write_text("old")
    write_file(full_disk / "file", "old")
    fill(full_disk, leave)
    ends = pytest.raises(Failed, match=r"old: no space is left on the disk; .* bytes were needed")
    with ends, write_directory(full_disk / "old") as beside:
        for n in range(100):
            (beside / str(n)).write_bytes(bytes(10_000))
    with pytest.raises(Failed, match=r"file: no space is left .*; 300,000 bytes were needed, "):
        write_file(full_disk / "file", bytes(300_000))
    assert (full_disk / "old/a").read_text() == (full_disk / "file").read_text() == "old"
    assert {path.name for path in full_disk.iterdir()} == {"old", "file", "filler"}


def test_what_does_not_fit_is_not_begun(full_disk: Path) -> None:
    refused = pytest.raises(Failed, match=r"4,000,000,000 bytes were needed, [\d,]+ are free")
    with refused, write_directory(full_disk / "new", needed=4_000_000_000):
        pytest.fail("it was begun")
    assert not any(full_disk.iterdir())
    assert "need about 4,000,000,000 bytes" in str(room.shortage(full_disk, 4 * 10**9, "they"))
    assert room.shortage(full_disk, 1000, "they") is None


def test_a_read_only_disk_is_bad_input(full_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(full_disk)], check=True)
    refused = pytest.raises(UserError, match=r"cannot write to .*new: Read-only file system")
    with refused, write_directory(full_disk / "new"):
        pass
    with pytest.raises(UserError, match=r"cannot write to .*file: Read-only file system"):
        write_file(full_disk / "file", "x")


def test_the_log_of_a_run_on_a_full_disk(full_disk: Path) -> None:
    journal = Journal(full_disk / "log.jsonl")
    fill(full_disk, 0)
    with pytest.raises(Failed, match=r"log.jsonl: no space is left on the disk"):
        for n in range(10_000):
            journal.write("step", step=n)


def test_reasons_in_the_words_of_libraries() -> None:
    assert room.reason_of(OSError(errno.EDQUOT, "x")) == "the quota of this account is used up"
    rust = RuntimeError("Error while serializing: I/O error: File too large (os error 27)")
    assert "ulimit -f" in str(room.reason_of(rust))
    assert room.reason_of(OSError(errno.ENOENT, "x")) is None
    assert room.reason_of(ValueError("no space")) is None
    assert resource.RLIMIT_FSIZE is not None
