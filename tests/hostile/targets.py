"""What is fuzzed: an example, which of its files are made wrong and how, and who reads it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.hostile import examples
from tests.hostile.guard import attempt, command, reading
from tests.hostile.mutate import (
    Dice,
    Mutation,
    json_file,
    json_lines,
    mutate_bytes,
    safetensors_file,
)

Run = Callable[[Path], int]
SAMPLE = ("今天 the cat [MASK]", "e\u0301 12,000 \u200b😀")


@dataclass
class Target:
    """One kind of input; `files` are glob patterns with the way to change what they find."""

    name: str
    make: Callable[[Path], None]
    files: Sequence[tuple[str, Mutation]]
    run: Run
    share: int = 1  # of all cases
    alone: bool = False  # the changed file is all that is read, not its whole folder
    folder: Path = Path()
    sources: list[tuple[Path, bytes, Mutation]] = field(default_factory=list)

    def prepare(self, folder: Path) -> None:
        """Writes the example."""
        self.folder = folder
        folder.mkdir(parents=True)
        self.make(folder)
        self.sources = [
            (path, path.read_bytes(), how)
            for pattern, how in self.files
            for path in sorted(folder.glob(pattern))
        ]
        assert self.sources, f"{self.name}: nothing to change"

    def example(self) -> int:
        """How the example itself is read; 0 if it is right."""
        places = {path for path, _, _ in self.sources} if self.alone else {self.folder}
        return max(self.run(place) for place in sorted(places))

    def case(self, data: bytes) -> str | None:
        """Makes one file wrong as `data` says, has it read, puts it back; what went wrong."""
        dice = Dice(data)
        path, content, how = dice.one(self.sources)
        try:
            changed = how(dice, content)
        except (ValueError, OverflowError, RecursionError):  # no such JSON: infinity as a number
            changed = mutate_bytes(dice, content)
        path.write_bytes(changed)
        try:
            return attempt(self.run, path if self.alone else self.folder)
        finally:
            path.write_bytes(content)


# ---------------------------------------------------------------- who reads what


def _text(path: Path) -> int:
    from tianci.data.documents import Source, examine, read_documents
    from tianci.text.records import text_blocks

    def read() -> None:
        for _ in text_blocks(path, "text"):
            pass
        form = examine(path, "auto", "auto", "text")
        for document in read_documents(Source(path, path.name, form), "text"):
            document.sentences()

    return reading(read)


ROWS = {**{f"{task}.jsonl": task for task in examples.ROWS}, "table.tsv": "classify",
        "table.csv": "classify", "tags.conll": "tag", "squad.json": "answer",
        "plain.txt": "generate"}  # fmt: skip


def _rows(path: Path) -> int:
    from tianci.data.rows import read_rows
    from tianci.goals.tasks import make_task

    return reading(lambda: read_rows(path, make_task(ROWS[path.name]).columns()))


def _check(path: Path) -> int:
    return command("check", path, "--task", ROWS[path.name], "--json")


def _settings(folder: Path) -> int:
    return command("pretrain", "--settings", folder / "settings.toml", "--print-settings")


def _assignment(folder: Path) -> int:
    text = (folder / "assignment").read_bytes().decode("utf-8", "surrogateescape")
    return command("pretrain", "--print-settings", "--set", text)


def _recipe(folder: Path) -> int:
    from tianci.comparison.recipe import read_recipe

    return reading(read_recipe, folder / "recipe.toml")


def _tokenizer(folder: Path) -> int:
    return command("tokenize", folder, *SAMPLE, "--json")


def _info(folder: Path) -> int:
    return command("info", folder, "--json")


def _answers(folder: Path) -> int:
    """Loads a model as most commands do, and asks it."""
    from tianci.serve.predictor import load

    def use() -> None:
        predictor = load(folder)
        predictor.embed(list(SAMPLE))
        if "masked" in predictor.heads:
            predictor.fill(SAMPLE[0])

    return reading(use)


def _predict(folder: Path) -> int:
    return command("predict", folder, folder / "classify.jsonl")


def _adapter(folder: Path) -> int:
    return command("info", folder / "adapter", "--json")


def _store(folder: Path) -> int:
    from tianci.data.corpus import Corpus
    from tianci.data.store import SplitStore

    def read() -> None:
        corpus = Corpus(folder / "store")
        corpus.tokenizer()
        for name in corpus.splits:
            store = SplitStore(corpus.split(name))
            for document in range(min(store.count(), 8)):
                borders = store.sentences(document)
                for start, end in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
                    store.read(start, end)

    return reading(read)


def _record(folder: Path) -> int:
    """corpus.json behind its seal: whoever makes a hostile store seals it too."""
    from tianci.data.store_record import check_record
    from tianci.files import read_json

    def read(path: Path) -> None:
        check_record(path, read_json(path))

    return reading(read, folder / "store" / "corpus.json")


def _audit(folder: Path) -> int:
    return command("audit", folder / "store", "--tokens", 200, "--length", 16, "--json")


def _pages(folder: Path) -> int:
    from tianci.serve.run_report import report_of
    from tianci.serve.run_summary import sum_up
    from tianci.serve.runs import SCORES, Runs

    def read() -> None:
        runs = Runs(folder / "runs")
        try:
            for run in runs.found().runs:
                sum_up(runs, run, 0.0)
                if SCORES in run.files:
                    report_of(run.name, runs.read(run, SCORES))
        finally:
            runs._threads.shutdown()

    return reading(read)


def _history(folder: Path) -> int:
    from tianci.train.history import read_history

    return reading(read_history, folder / "runs" / "one")


def _resume(folder: Path) -> int:
    from tianci.train.record import recorded as pretraining
    from tianci.tune.run import _recorded as tuning

    (folder / "runs" / "two" / "scores.json").unlink(missing_ok=True)
    codes = [reading(pretraining, folder / "runs" / "one")]
    return max(*codes, reading(tuning, folder / "runs" / "two"))


def _restore(folder: Path) -> int:
    """A checkpoint behind its seal: whoever makes a hostile one seals it too."""
    import torch

    from tianci import checkpoint, manifest
    from tianci.train import state

    def read() -> None:
        place = folder / "checkpoints" / "step-00000001"
        manifest.seal(place)
        optimizer = torch.optim.AdamW(checkpoint.read(place).model.parameters())
        state.restore(place, optimizer)
        for parameter in optimizer.param_groups[0]["params"]:
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()

    return reading(read)


def _verify(folder: Path) -> int:
    """Damage is an answer here; both with a manifest and without, where contents are looked at."""
    from tianci.verify import verify

    return max(reading(verify, place) for place in sorted(folder.iterdir()))


def _convert(folder: Path) -> int:
    try:
        return command("convert", folder, folder.parent / "converted", "--json")
    finally:
        shutil.rmtree(folder.parent / "converted", ignore_errors=True)


def _vectors(folder: Path) -> int:
    from tianci.evaluate.neighbours import keep_vectors

    def embed(texts: Sequence[str]) -> Any:
        return np.ones((len(texts), 4), np.float32)

    return reading(keep_vectors, folder / "v.npy", ["a", "b", "c"], embed)


def assignment(folder: Path) -> None:
    (folder / "assignment").write_text("train.lr=3e-5")


def _toml(dice: Dice, data: bytes) -> bytes:
    """A line of a TOML file with another value, or bytes changed anywhere."""
    if dice.below(3) == 2:
        return mutate_bytes(dice, data)
    lines = data.split(b"\n")
    places = [n for n, line in enumerate(lines) if b"=" in line]
    at = dice.one(places)
    name, _, _ = lines[at].partition(b"=")
    lines[at] = name + b"= " + dice.one(TOML_VALUES)
    return b"\n".join(lines)


TOML_VALUES = (
    b"0", b"-1", b"1e999", b"nan", b"-inf", b"true", b'""', b'"x"', b"[]", b"[[]]", b"{}",
    b"{a = 1}", b"'''", b"1979-05-27", b"07:32:00", b"99999999999999999999999", b"0x",
    b'"\\ud800"', b'"\\u0000"', b'"a.b.c"', b'["a", 1]', b"[" * 3000, b'"../../etc/passwd"',
    b'"masked+masked"', b'"+"', b'"os.path"', b"1_0", b"9" * 5000,
    b"{a." + b"b." * 2000 + b"c = 1}",
)  # fmt: skip

JSON = (("*.json", json_file), ("*/*.json", json_file))
WEIGHTS = ("*.safetensors", safetensors_file)


def targets() -> list[Target]:
    """All of them; `share` says how many of the cases each gets."""
    from tests.matrix.families import FAMILIES

    bytes_of = ("*", mutate_bytes)
    return [
        Target("text files", examples.texts, [("*.jsonl", json_lines), bytes_of], _text, 3, True),
        Target(
            "labelled rows",
            examples.rows,
            [("*.jsonl", json_lines), ("*.json", json_file), bytes_of],
            _rows,
            5,
            True,
        ),
        Target(
            "check",
            examples.rows,
            [
                ("*.jsonl", json_lines),
                ("*.json", json_file),
                ("*.[ct]sv", mutate_bytes),
                ("*.conll", mutate_bytes),
            ],
            _check,
            3,
            True,
        ),
        Target("settings", examples.settings, [("*.toml", _toml)], _settings, 2),
        Target("--set", assignment, [bytes_of], _assignment, 2),
        Target("recipes", examples.recipe, [("*.toml", _toml)], _recipe, 3),
        Target(
            "vocab.txt",
            examples.vocabulary_file,
            [("*.json", json_file), ("*.txt", mutate_bytes)],
            _tokenizer,
            3,
        ),
        Target(
            "vocab.json, merges.txt",
            examples.merges,
            [("*.json", json_file), ("*.txt", mutate_bytes)],
            _tokenizer,
            3,
        ),
        *(
            Target(
                f"tokenizer.json, {kind}",
                examples.tokenizer(kind),
                [("token*.json", json_file)],
                _tokenizer,
                3,
            )
            for kind in examples.KINDS
        ),
        *(
            Target(
                f"model, {kind}",
                examples.model(kind),
                [*JSON, WEIGHTS],
                _info if kind != "bert" else _answers,
                2,
            )
            for kind in FAMILIES
        ),
        Target("model in shards", examples.shards, [("model*.json", json_file), WEIGHTS], _info, 2),
        Target(
            "fine-tuned model",
            examples.classifier,
            [("tianci.json", json_file), ("config.json", json_file)],
            _predict,
            2,
        ),
        Target(
            "adapter",
            examples.adapted,
            [("adapter/*.json", json_file), ("adapter/*.safetensors", safetensors_file)],
            _adapter,
            2,
        ),
        Target(
            "token store",
            examples.store,
            [("store/*.json", json_file), ("store/*/*", mutate_bytes)],
            _store,
            3,
        ),
        Target("record of a store", examples.store, [("store/*.json", json_file)], _record, 2),
        Target(
            "audit",
            examples.store,
            [("store/*.json", json_file), ("store/*/*", mutate_bytes)],
            _audit,
            1,
        ),
        Target(
            "pages of runs",
            examples.run,
            [("runs/*/*.jsonl", json_lines), ("runs/*/*.json", json_file)],
            _pages,
            3,
        ),
        Target(
            "history of a run",
            examples.run,
            [("runs/one/*.jsonl", json_lines), ("runs/one/*.json", json_file)],
            _history,
            2,
        ),
        Target("resume", examples.run, [("runs/*/run.json", json_file)], _resume, 2),
        Target(
            "state of a checkpoint",
            examples.saved,
            [("*/*/resume/*.json", json_file), ("*/*/resume/*.safetensors", safetensors_file)],
            _restore,
            2,
        ),
        Target(
            "verify",
            examples.mixed,
            [
                ("*/*.json", json_file),
                ("*/*.safetensors", safetensors_file),
                ("*/*", mutate_bytes),
            ],
            _verify,
            2,
        ),
        Target(
            "pytorch_model.bin",
            examples.pickled,
            [("*.bin", mutate_bytes), ("config.json", json_file)],
            _convert,
            1,
        ),
        Target(
            "TensorFlow checkpoint",
            examples.tensorflow,
            [bytes_of, ("bert_config.json", json_file)],
            _convert,
            1,
        ),
        Target("kept vectors", examples.vectors, [bytes_of], _vectors, 1),
    ]
