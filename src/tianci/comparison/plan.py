"""The parts of a comparison: each is an ordinary run in a directory of its own.

vocab/KIND-SIZE-KEY, corpus/KIND-SIZE-KEY    shared by the models that want the same
MODEL/model                                  a pre-training run
MODEL/TASK-SEED                              a fine-tuning run
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tianci import checkpoint, manifest
from tianci.comparison.estimate import Estimate
from tianci.comparison.held_out import measure_held_out
from tianci.comparison.recipe import Recipe, slug
from tianci.comparison.settings import Entry, Labels
from tianci.data.prepare import prepare
from tianci.evaluate.baselines import baseline_answers
from tianci.evaluate.check import check
from tianci.files import read_json, write_directory
from tianci.goals.objectives import parse
from tianci.goals.tasks import make_task
from tianci.models import preset
from tianci.settings import as_table, build
from tianci.text.learn import learn
from tianci.text.tokenizer import Tokenizer
from tianci.train import journal, state
from tianci.train.place import publish
from tianci.train.pretrain import pretrain
from tianci.train.settings import Pretrain
from tianci.train.vocabulary import vocabulary_sizes
from tianci.tune.run import finetune, refuse_faults, split_rows

SEED_STEP = 1000  # between the seeds of a task, as in tianci finetune --seeds


@dataclass(frozen=True)
class Part:
    """Something to do, named; `work` gives its result."""

    name: str
    what: str  # for the bar
    seconds: float  # estimated
    made_from: dict[str, Any]
    work: Callable[[], dict[str, Any]]


class Plan:
    """What has to be done for a recipe, and how."""

    def __init__(self, recipe: Recipe, out: Path, seed: int):
        self.recipe, self.out, self.seed = recipe, out, seed
        self.estimate = Estimate(recipe)

    def parts(self) -> list[Part]:
        """All parts in their order; vocabularies and corpora that models share come once."""
        parts: dict[str, Part] = {}
        for labels in self.recipe.tasks:
            part = self._baseline(labels)
            parts[part.name] = part
        for entry in self.recipe.models:
            needed = [] if entry.directory else [self._vocabulary(entry), self._corpus(entry)]
            model = self._model(entry)
            for part in (*needed, model):
                parts.setdefault(part.name, part)
            for labels in self.recipe.tasks:
                for n in self.seeds:
                    part = self._tuning(entry, labels, n, model)
                    parts[part.name] = part
        return list(parts.values())

    @property
    def seeds(self) -> list[int]:
        return [self.seed + SEED_STEP * n for n in range(self.recipe.compare.seeds)]

    def _text(self) -> list[list[Any]]:
        """The text by name and size, wherever it lies."""
        found = zip(self.recipe.compare.text, self.recipe.texts, strict=True)
        return [[name, path.stat().st_size if path.is_file() else 0] for name, path in found]

    def _vocabulary_folder(self, entry: Entry) -> Path:
        wanted = self.recipe.vocabulary(entry)
        return self.out / "vocab" / _called(f"{wanted.kind}-{wanted.size}", self._vocab_from(entry))

    def _vocab_from(self, entry: Entry) -> dict[str, Any]:
        return {"text": self._text(), "vocab": as_table(self.recipe.vocabulary(entry))}

    def _vocabulary(self, entry: Entry) -> Part:
        folder, wanted = self._vocabulary_folder(entry), self.recipe.vocabulary(entry)

        def work() -> dict[str, Any]:
            tokenizer, report = learn(self.recipe.texts, wanted)
            with write_directory(folder) as beside:
                tokenizer.save(beside)
                manifest.seal(beside)
            return {"size": report["size"], "kind": wanted.kind}

        seconds = self.estimate.reading("vocab")
        what = f"vocabulary {wanted.kind}, {wanted.size:,} entries"
        return Part(f"vocab/{folder.name}", what, seconds, self._vocab_from(entry), work)

    def _corpus_folder(self, entry: Entry) -> Path:
        wanted = self.recipe.vocabulary(entry)
        name = _called(f"{wanted.kind}-{wanted.size}", self._corpus_from(entry))
        return self.out / "corpus" / name

    def _corpus_from(self, entry: Entry) -> dict[str, Any]:
        return {**self._vocab_from(entry), "prepare": as_table(self.recipe.preparing(entry))}

    def _corpus(self, entry: Entry) -> Part:
        folder, vocabulary = self._corpus_folder(entry), self._vocabulary_folder(entry)

        def work() -> dict[str, Any]:
            settings = self.recipe.preparing(entry)
            found = prepare(self.recipe.texts, vocabulary, folder, settings)
            names = ("documents", "tokens", "bytes", "unigram_entropy", "bigram_entropy")
            return {name: found[name] for name in names}

        seconds = self.estimate.reading("prepare")
        return Part(f"corpus/{folder.name}", f"text as {folder.name}", seconds,
                     self._corpus_from(entry), work)  # fmt: skip

    # ---------------------------------------------------------------- models

    def _model_folder(self, entry: Entry) -> Path:
        return Path(entry.directory) if entry.directory else self.out / slug(entry.name) / "model"

    def _model(self, entry: Entry) -> Part:
        name, what = f"{slug(entry.name)}/model", f"{entry.name}: pre-training"
        if entry.directory:
            place = {"directory": Path(entry.directory).name}
            return Part(name, entry.name, 1.0, place, lambda: self._described(entry))
        made_from: dict[str, Any] = {
            **self._corpus_from(entry),
            "preset": entry.preset,
            "objective": self.recipe.objective(entry),
            "sizes": self.recipe.table(entry, "sizes"),
            "objectives": {k: v for k, v in self.recipe.objective_tables(entry).items() if v},
            "pretrained": entry.pretrained,
            "train": as_table(self.recipe.training(entry)),
            "seed": self.seed,
        }
        if not entry.pretrained:
            return Part(name, entry.name, 1.0, made_from, lambda: self._fresh(entry))
        seconds = self.estimate.pretraining(entry)
        return Part(name, what, seconds, made_from, lambda: self._pretrained(entry))

    def _described(self, entry: Entry) -> dict[str, Any]:
        saved = checkpoint.read(entry.directory)
        return {"family": saved.family, "parameters": saved.parameter_count}

    def _fresh(self, entry: Entry) -> dict[str, Any]:
        """A model as it is before any training."""
        tokenizer = Tokenizer.load(self._vocabulary_folder(entry))
        kind, config = preset(entry.preset)
        sizes = {**dataclasses.asdict(config), **vocabulary_sizes(config, tokenizer)}
        config = build(type(config), {**sizes, **self.recipe.table(entry, "sizes")}, "sizes")
        goal = parse(self.recipe.objective(entry), self.recipe.objective_tables(entry))
        torch.manual_seed(self.seed)
        model = checkpoint.create(kind, config, goal.heads)
        model.tokenizer = tokenizer
        checkpoint.write(self._model_folder(entry), model)
        return {"family": kind, "parameters": model.parameter_count}

    def _pretrained(self, entry: Entry) -> dict[str, Any]:
        """Pre-trains, or goes on, or reads what an earlier sitting finished."""
        run, corpus = self._model_folder(entry), self._corpus_folder(entry)
        train = self.recipe.training(entry)
        summary = _ended(run)
        if summary is None and (run / "run.json").exists():
            summary = pretrain({}, resume=str(run), quiet=True)
        elif summary is None:
            shutil.rmtree(run, ignore_errors=True)  # killed before its first word
            wanted = Pretrain(str(corpus), entry.preset, self.recipe.objective(entry), str(run))
            sections = {
                "pretrain": wanted,
                "train": train,
                "model": self.recipe.table(entry, "sizes"),
                **self.recipe.objective_tables(entry),
            }
            summary = pretrain(sections, seed=self.seed, quiet=True)
        names = ("parameters", "tokens", "steps", "seconds", "tokens_per_second", "held", "verdict")
        said = [e["message"] for e in journal.read(run / "log.jsonl") if e["event"] == "finding"]
        return {
            "family": preset(entry.preset)[0],
            **{name: summary[name] for name in names},
            "held_out": measure_held_out(run, corpus, train.length),
            "findings": said,
        }

    # ---------------------------------------------------------------- tasks

    def _baseline(self, labels: Labels) -> Part:
        """The same rows for something simple without a network."""
        settings = self.recipe.tuning(Entry(""), labels)
        made_from = {"task": self._task_from(Entry(""), labels)}

        def work() -> dict[str, Any]:
            task = make_task(labels.task, labels.settings)
            rows = split_rows(task, settings, self.seed)
            refuse_faults(check(dict(rows), task), settings.force)  # now, not an hour later
            task = task.learn([row for some in rows.values() for row in some])
            count = {"rows": {name: len(some) for name, some in rows.items()}}
            split = "test" if "test" in rows else "dev"
            both = [*rows["dev"], *rows.get("test", [])]
            answers = baseline_answers(task, rows["train"], both, self.seed)
            if answers is None:
                return count
            known, asked = answers[: len(rows["dev"])], answers[len(rows["dev"]) :]
            decision = task.decide(rows["dev"], known)
            metric = settings.metric or task.chosen_by(rows["dev"])
            scores = task.score(rows[split], asked if split == "test" else known, decision)
            return {**count, "metric": metric, "split": split, "score": scores[metric]}

        name = f"baseline/{slug(labels.name)}"
        return Part(name, f"{labels.name}: simple baseline", 10.0, made_from, work)

    def _task_from(self, entry: Entry, labels: Labels) -> dict[str, Any]:
        table = as_table(self.recipe.tuning(entry, labels))
        for name in ("train", "dev", "test"):  # by name and size, wherever they lie
            path = Path(table[name]) if table[name] else None
            table[name] = [path.name, path.stat().st_size] if path else ""
        return {"task": labels.task, "settings": labels.settings, "finetune": table}

    def tuning_name(self, entry: Entry, labels: Labels, seed: int) -> str:
        return f"{slug(entry.name)}/{slug(labels.name)}-{seed}"

    def _tuning(self, entry: Entry, labels: Labels, seed: int, model: Part) -> Part:
        name = self.tuning_name(entry, labels, seed)
        made_from = {**self._task_from(entry, labels), "model": digest(model.made_from)}
        what = f"{entry.name}: {labels.name}, seed {seed}"
        return Part(name, what, self.estimate.tuning(entry, labels), made_from,
                     lambda: self._tuned(entry, labels, seed))  # fmt: skip

    def _tuned(self, entry: Entry, labels: Labels, seed: int) -> dict[str, Any]:
        run = self.out / self.tuning_name(entry, labels, seed)
        if not (run / "scores.json").exists():
            if (run / "run.json").exists():
                finetune("", self.recipe.tuning(entry, labels), resume=str(run), quiet=True)
            else:
                shutil.rmtree(run, ignore_errors=True)
                settings = dataclasses.replace(
                    self.recipe.tuning(entry, labels),
                    model=str(self._model_folder(entry)),
                    out=str(run),
                )
                finetune(labels.task, settings, labels.settings, seed, True)
        record = read_json(run / "scores.json")
        split = "test" if record["test"] else "dev"
        metric = record["metric"]
        return {
            "metric": metric,
            "split": split,
            "score": record[split]["scores"][metric],
            "interval": record[split]["intervals"].get(metric),
            "tokens_per_second": record["tokens_per_second"],
            "seconds": record["seconds"],
            "notes": record["notes"],
        }


def _ended(run: Path) -> dict[str, Any] | None:
    """The summary of a pre-training that was finished, as its log has it."""
    if not (run / "model.safetensors").exists() or not (run / "log.jsonl").exists():
        return None
    ends = [entry for entry in journal.read(run / "log.jsonl") if entry["event"] == "end"]
    if ends:
        publish(state.newest(run), run)  # it may have been killed between two files
    return ends[-1] if ends else None


def digest(value: Any) -> str:
    """A short name for a table of settings."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _called(name: str, made_from: Mapping[str, Any]) -> str:
    """A folder for what was made in this way: two ways, two folders."""
    return f"{name}-{digest(made_from)}"
