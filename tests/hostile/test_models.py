"""Model files cannot run code, nor take more than they are worth: a corpus of hostile ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile import corpus, examples
from tests.hostile.guard import command, in_time
from tianci.errors import UserError

BASE_MEMORY = 400_000_000  # bytes of a process that only imports what reads models, with room
READ_BY_TIANCI_ONLY = "pickle as tianci.json"  # `convert` writes a new one
ALONE = (
    "a billion layers", "config.json of 1 GB", "config.json of commas",
    "config.json without an end", "tensor of 2^80 numbers", "tokenizer.json of 1 GB",
    "width of a billion",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))  # as `python -m tianci` would have it
    return tmp_path / "model"


@pytest.mark.parametrize("name", corpus.REFUSED)
def test_hostile_models_are_refused(name: str, folder: Path) -> None:
    corpus.REFUSED[name](folder)
    rows = folder.parent / "rows.jsonl"
    rows.write_text('{"text": "a"}\n')
    labelled = folder.parent / "labelled.jsonl"
    labelled.write_text("".join(f'{{"text": "{n}", "label": "{n % 2}"}}\n' for n in range(20)))
    tune = ("finetune", "classify", "--model", folder, "--train", labelled, "--dev", labelled,
            "--out", folder.parent / "out", "--force", "--quiet")  # fmt: skip
    asked = [
        ("info", folder),
        ("embed", folder, rows, "--out", folder.parent / "x.npy"),
        ("serve", folder, "--port", "0", "--quiet"),
        tune,
    ]
    if name != READ_BY_TIANCI_ONLY:
        asked.append(("convert", folder, folder.parent / "out"))
    if name == "task that is a module":  # only who asks for the task reads its name
        asked = [("predict", folder, rows)]
    for arguments in asked:
        with in_time():
            assert command(*arguments) == 2, arguments[0]
    assert not (folder.parent / corpus.CANARY).exists(), "code of the file was run"
    assert not (folder.parent / "out").exists() and not (folder.parent / "x.npy").exists()


@pytest.mark.parametrize("name", corpus.IGNORED)
def test_what_others_would_run_is_only_data(name: str, folder: Path) -> None:
    corpus.IGNORED[name](folder)
    assert command("fill", folder, "天[MASK]", "--json") == 0
    assert not (folder.parent / corpus.CANARY).exists()


def test_the_canary_sings(folder: Path) -> None:
    """The corpus is dangerous: whoever unpickles it runs its code."""
    import pickle

    folder.mkdir()
    place = folder.parent / corpus.CANARY
    pickle.loads(pickle.dumps(corpus.Bomb(place)))
    assert place.exists()


def test_vectors_of_objects_are_refused(tmp_path: Path) -> None:
    from tianci.evaluate.neighbours import keep_vectors

    corpus.objects(tmp_path / "v.npy")
    with pytest.raises(UserError, match="not a NumPy array"):
        keep_vectors(tmp_path / "v.npy", ["a"], lambda texts: None)  # type: ignore[arg-type,return-value]
    assert not (tmp_path / corpus.CANARY).exists()


def test_stores_of_objects_or_from_elsewhere_are_refused(tmp_path: Path) -> None:
    from tianci.data.store_record import check_record

    examples.store(tmp_path)
    path = tmp_path / "store" / "corpus.json"
    good = json.loads(path.read_text())
    check_record(path, good)
    shard = good["splits"]["train"][0]
    shards = ({"name": "../x"}, {"tokens": 10**15}, {"documents": -1}, {"files": {}})
    changes = [{"splits": {"train": [{**shard, **one}]}} for one in shards]
    for change in ({"dtype": "O"}, {"dtype": "<f8"}, *changes):
        with pytest.raises(UserError):
            check_record(path, {**good, **change})


# not ru_maxrss: it begins with the size of the process that forked, here pytest with all its tests
MEASURE = """
import sys
from tianci import cli
try:
    cli.main(sys.argv[1:])
except SystemExit as stop:
    with open("/proc/self/status") as status:
        (peak,) = [line.split()[1] for line in status if line.startswith("VmHWM")]
    print(int(peak) * 1024, file=sys.stdout)
    raise
"""


@pytest.mark.parametrize("name", ALONE)
def test_hostile_sizes_take_no_memory(name: str, folder: Path) -> None:
    """In a process of its own, under a limit of memory and of processor time."""
    corpus.REFUSED[name](folder)
    size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())

    def limit() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (30, 30))

    done = subprocess.run(
        [sys.executable, "-c", MEASURE, "tokenize" if "tokenizer" in name else "info", str(folder)]
        + (["a"] if "tokenizer" in name else []),
        capture_output=True, text=True, check=False, timeout=120, preexec_fn=limit,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
    assert int(done.stdout.split()[-1]) < BASE_MEMORY + 2 * size
