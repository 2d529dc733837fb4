"""Damage of any file is found, said, and passed over: checkpoints, token stores and the rest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from tests.data.conftest import CHINESE, SPECIAL, WORDS
from tests.goals import tiny
from tests.mutations import KINDS, damaged, empty, flip, longer, truncate
from tianci import adapters, checkpoint, manifest
from tianci.cli import tianci as command_line
from tianci.cli.vocab import OURS
from tianci.data.corpus import Corpus
from tianci.data.prepare import PrepareSettings, prepare
from tianci.errors import UserError
from tianci.models import bert
from tianci.train import state
from tianci.train.place import publish
from tianci.verify import verify

SIZES = {"width": 16, "layers": 1, "heads": 2, "hidden": 32, "positions": 16}
MUTATIONS = 500


def small_model() -> checkpoint.Checkpoint:
    tokenizer = tiny.tokenizer()
    torch.manual_seed(0)
    config = bert.Config(vocabulary=len(tokenizer), **SIZES)
    model = checkpoint.create("bert", config, ("masked",))
    model.tokenizer = tokenizer
    return model


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two checkpoints, as a real one leaves it."""
    folder = tmp_path_factory.mktemp("verify") / "run"
    model = small_model()
    modules = [model.model, *model.heads.values()]
    adam = torch.optim.AdamW([p for module in modules for p in module.parameters()])
    for step in (1, 2):
        for group in adam.param_groups:
            for parameter in group["params"]:
                parameter.grad = torch.full_like(parameter, float(step))
        adam.step()
        state.save(folder, model, adam, state.State(step), keep=2)
    (folder / "run.json").write_text("{}")
    publish(state.newest(folder), folder)
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    (folder / "vocabulary").mkdir()
    entries = "\n".join([*SPECIAL, *WORDS, *CHINESE]) + "\n"
    (folder / "vocabulary" / "vocab.txt").write_text(entries, encoding="utf-8")
    (folder / "text.txt").write_text("今天天气很好。\n我们去公园。\n\nThe cat sat.\n\n看书\n" * 30)
    settings = PrepareSettings(held=0.1, layout="lines")
    prepare([folder / "text.txt"], folder / "vocabulary", folder / "store", settings)
    return folder / "store"


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_whole_directories_are_whole(run: Path, store: Path) -> None:
    reports = {Path(report.place).name: report for report in verify(run)}
    assert [*reports] == ["run", "step-00000001", "step-00000002"]
    assert [report.kind for report in reports.values()] == ["model", "checkpoint", "checkpoint"]
    [report] = verify(store)
    assert report.kind == "corpus" and not report.bad
    assert not any(report.bad or report.note for report in reports.values())
    assert reports["step-00000002"].files == len(files_of(run / "checkpoints/step-00000002")) - 1
    Corpus(store).check()


def test_500_mutations_of_a_checkpoint_and_a_store_are_all_found(run: Path, store: Path) -> None:
    """Also: going on falls back to the checkpoint before, and says which was bad and why."""
    newest, before = run / "checkpoints/step-00000002", run / "checkpoints/step-00000001"
    rng = np.random.default_rng(7)
    targets = [(newest, path) for path in files_of(newest)]
    targets += [(store, path) for path in files_of(store)]
    tried = 0
    for round_number in range(1 + MUTATIONS // len(targets)):
        for place, (folder, path) in enumerate(targets):
            kind = KINDS[(place + round_number) % len(KINDS)]
            name = path.relative_to(folder).as_posix()
            with damaged(path, kind, rng):
                [report] = verify(folder)
                told = " ".join(str(fault) for fault in report.bad)
                # a damaged shard of the tokenizer is told as the tokenizer's
                assert name.split("/")[0] in told, (name, kind.__name__, told)
                if folder == newest:
                    assert state.newest(run) == before, (name, kind.__name__)
                else:
                    _refused(store, name)
            tried += 1
    assert tried >= MUTATIONS
    assert state.newest(run) == newest and not verify(store)[0].bad


def _refused(store: Path, name: str) -> None:
    """Training refuses the damaged store before its first step, too."""
    if name.endswith("shard.json"):
        return  # only read by prepare, which makes the shard again
    with pytest.raises(UserError):
        corpus = Corpus(store)
        corpus.tokenizer()
        corpus.check()


def test_foreign_files_are_found_and_hidden_ones_are_not(run: Path, store: Path) -> None:
    for folder in (run / "checkpoints/step-00000002", store):
        (folder / ".DS_Store").write_text("x")
        assert not verify(folder)[0].bad
        (folder / "model.bin").write_text("x")
        assert [str(f) for f in verify(folder)[0].bad] == ["model.bin does not belong here"]
        (folder / "model.bin").unlink()
        (folder / ".DS_Store").unlink()


def test_damaged_checkpoints_are_put_aside_and_told(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    newest = copy / "checkpoints/step-00000002"
    (newest / "config.json").unlink()
    (newest / "model.safetensors").write_bytes(b"")
    told: list[str] = []
    assert state.newest(copy, told.append) == copy / "checkpoints/step-00000001"
    assert not newest.exists() and newest.with_name("damaged-step-00000002").is_dir()
    [sentence] = told
    assert "config.json is missing (and 1 more files)" in sentence
    assert "damaged-step-00000002" in sentence
    (copy / "checkpoints/step-00000001/manifest.json").write_text("{}")
    with pytest.raises(UserError, match="has no whole checkpoint to go on from"):
        state.newest(copy, told.append)


def test_prepare_makes_damaged_shards_again(store: Path, tmp_path: Path) -> None:
    copy = tmp_path / "store"
    shutil.copytree(store, copy)
    before = {path.name: path.read_bytes() for path in files_of(copy)}
    rng = np.random.default_rng(1)
    for path in (next(copy.glob("train-*/tokens.bin")), next(copy.glob("held-*/shard.json"))):
        changed = flip(path.read_bytes(), rng)
        path.write_bytes(changed)
    settings = PrepareSettings(held=0.1, layout="lines")
    prepare([store.parent / "text.txt"], store.parent / "vocabulary", copy, settings)
    assert not verify(copy)[0].bad
    assert {path.name: path.read_bytes() for path in files_of(copy)} == before


def test_stores_and_checkpoints_of_older_versions_are_read(
    run: Path, store: Path, tmp_path: Path
) -> None:
    shutil.copytree(store, tmp_path / "store")
    path = tmp_path / "store/corpus.json"
    info = json.loads(path.read_text())
    del info["sha256"]
    path.write_text(json.dumps({**info, "version": 1}))
    for shard in (tmp_path / "store").glob("*/shard.json"):
        told = json.loads(shard.read_text())
        del told["sha256"]
        shard.write_text(json.dumps(told))
    Corpus(tmp_path / "store").check()
    [report] = verify(tmp_path / "store")
    assert not report.bad and "older" in report.note
    path.write_text(json.dumps({**info, "version": 2}))
    with pytest.raises(UserError, match=r"corpus.json is damaged"):
        Corpus(tmp_path / "store")
    old = tmp_path / "step-00000002"
    shutil.copytree(run / "checkpoints/step-00000002", old)
    told = {name: manifest.checksum(old / name) for name in manifest.inside(old)}
    (old / "manifest.json").write_text(json.dumps(told))
    assert manifest.faults(old) == []
    (old / "config.json").write_text("{}")
    assert [str(f) for f in manifest.faults(old)] == [
        "config.json has changed: its sha256 is another"
    ]


def test_models_are_loaded_after_a_cheap_look(tmp_path: Path) -> None:
    """Sizes of weights at loading, checksums in verify; text files may be edited."""
    folder = tmp_path / "model"
    checkpoint.write(folder, small_model())
    rng = np.random.default_rng(3)
    (folder / "README.md").write_text("# mine\n")
    assert checkpoint.read(folder).parameter_count
    assert [fault.file for fault in verify(folder)[0].bad] == ["README.md"]
    shorter = pytest.raises(UserError, match=r"model.safetensors has [\d,]+ bytes instead of")
    with damaged(folder / "model.safetensors", longer, rng), shorter:
        checkpoint.read(folder)
    broken = pytest.raises(UserError, match=r"manifest.json is damaged; tianci verify")
    with damaged(folder / "manifest.json", truncate, rng), broken:
        checkpoint.read(folder)
    (folder / "manifest.json").unlink()
    checkpoint.read(folder)


def test_what_others_wrote_is_checked_as_far_as_possible(tmp_path: Path) -> None:
    folder = tmp_path / "public"
    model = small_model()
    checkpoint.write(folder, model)
    (folder / "manifest.json").unlink()
    [report] = verify(folder)
    assert not report.bad and report.note.startswith("no manifest.json")
    rng = np.random.default_rng(5)
    for name, kind in [("config.json", truncate), ("model.safetensors", truncate),
                       ("model.safetensors", empty), ("tokenizer.json", truncate)]:  # fmt: skip
        with damaged(folder / name, kind, rng):
            assert [fault.file for fault in verify(folder)[0].bad] == [name]
    model.heads["masked"].dense.bias.data[0] = float("nan")
    checkpoint.write(folder, model)
    (folder / "manifest.json").unlink()
    [fault] = verify(folder)[0].bad
    assert fault.file == "model.safetensors" and "not finite" in fault.fault


def test_adapters_and_tokenizers_have_manifests(tmp_path: Path) -> None:
    base, place = tmp_path / "base", tmp_path / "adapter"
    model = small_model()
    checkpoint.write(base, model)
    model.heads = {}
    adapters.write(place, model, base)
    [report] = verify(place)
    assert (report.kind, report.bad, report.note) == ("adapter", [], "")
    with damaged(place / "adapter.safetensors", flip, np.random.default_rng(2)):
        assert [fault.file for fault in verify(place)[0].bad] == ["adapter.safetensors"]
    text = tmp_path / "text.txt"
    text.write_text("今天天气很好\n" * 50, encoding="utf-8")
    answer = CliRunner().invoke(
        command_line, ["vocab", str(text), "--size", "10", "--out", str(tmp_path / "vocab"), "-q"]
    )
    assert answer.exit_code == 0
    assert {path.name for path in (tmp_path / "vocab").iterdir()} <= OURS
    with damaged(tmp_path / "vocab/tokenizer.json", flip, np.random.default_rng(2)):
        [report] = verify(tmp_path / "vocab")
        assert report.kind == "tokenizer" and [f.file for f in report.bad] == ["tokenizer.json"]


def test_the_command(run: Path, tmp_path: Path) -> None:
    def call(*arguments: str) -> tuple[int, str]:
        answer = CliRunner().invoke(command_line, ["verify", *arguments], standalone_mode=False)
        code = answer.return_value if answer.exception is None else answer.exit_code
        return int(code or 0), answer.output

    code, text = call(str(run))
    assert code == 0 and [line.split()[0] for line in text.splitlines()] == ["ok"] * 3
    code, text = call(str(run), "--json")
    assert code == 0 and json.loads(text)["ok"] is True and json.loads(text)["bad"] == []
    with damaged(run / "model.safetensors", flip, np.random.default_rng(4)):
        code, text = call(str(run), "--json")
        assert code == 1 and json.loads(text)["ok"] is False
        bad = json.loads(text)["bad"]  # a file with two names: the model is a checkpoint's, linked
        assert {fault["file"] for fault in bad} == {"model.safetensors"}
        assert bad[0]["directory"] == str(run)
        code, text = call(str(run))
        assert code == 1 and "1 bad   model" in text and "model.safetensors has changed" in text
    with pytest.raises(UserError, match="holds nothing that can be checked"):
        verify(tmp_path)
    with pytest.raises(UserError, match="is not a directory"):
        verify(tmp_path / "nowhere")
