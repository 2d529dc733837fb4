"""A small valid example of everything that tianci reads, to be made wrong by others."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from tests.goals import tiny
from tests.matrix.families import SIZES
from tianci import adapters, checkpoint, manifest
from tianci.data.prepare import PrepareSettings, prepare
from tianci.models import family
from tianci.nn import adapter
from tianci.settings import build
from tianci.text.learn import Vocabulary, learn
from tianci.train import state

GOLDEN = Path(__file__).parent.parent / "golden" / "tensorflow_bert"
KINDS = ("char", "wordpiece", "bpe", "byte-bpe", "unigram")
TEXT = "今天天气不错，我们去公园。\nThe cat sat on 12 mats, café!\n\n" * 4

ROWS: dict[str, list[dict[str, object]]] = {
    "classify": [{"text": "很好 the cat", "label": "a"}, {"text": "不好", "label": "b"}],
    "pair": [
        {"text": "天气", "pair": "今天", "label": "a"},
        {"text": "a", "pair": "b", "label": "b"},
    ],
    "regress": [{"text": "天气", "label": 0.5}, {"text": "今天", "label": 2}],
    "similar": [
        {"text": "天气", "pair": "今天", "label": 0.5},
        {"text": "a", "pair": "b", "label": 1},
    ],
    "tag": [{"words": ["the", "cat"], "tags": ["O", "B-X"]}, {"words": ["a"], "tags": ["O"]}],
    "answer": [
        {"question": "谁?", "context": "我的猫", "answers": {"text": ["猫"], "answer_start": [2]}}
    ],
    "choose": [{"context": "a", "question": "b", "choices": ["x", "y"], "label": 1}],
    "generate": [{"text": "今天", "target": "天气"}, {"text": "a", "target": "b"}],
}
TABLE = "text\tlabel\n很好 the cat\ta\n不好\tb\nso so\ta\n"
CONLL = "-DOCSTART- O\n\nthe\tO\ncat\tB-X\n\na O\n"
SQUAD = {
    "version": "v2",
    "data": [{"title": "t", "paragraphs": [{"context": "我的猫", "qas": [
        {"id": "1", "question": "谁?", "answers": [{"text": "猫", "answer_start": 2}]},
        {"id": "2", "question": "谁?", "is_impossible": True, "answers": []}]}]}],
}  # fmt: skip
SETTINGS = """
[pretrain]
corpus = "store"
preset = "bert-tiny"
objective = "masked+next_sentence"
out = "run"
[train]
steps = 3
lr = 1e-3
length = 32
[masked]
rate = 0.15
[model]
layers = 2
"""
RECIPE = """
[compare]
title = "t"
text = ["text.txt"]
steps = 2
seeds = 1
[vocab]
size = 100
[prepare]
held = 0.1
[train]
length = 32
[[model]]
name = "BERT"
preset = "bert-tiny"
[model.train]
lr = 1e-3
[[task]]
name = "reviews"
task = "classify"
train = "train.jsonl"
dev = "train.jsonl"
epochs = 1
"""
LOG = [
    {"event": "start", "step": 0, "lr": 1e-3, "warmup": 0.1, "parameters": 100, "metric": "f1"},
    {
        "event": "step",
        "step": 1,
        "loss": 2.0,
        "parts": {"masked": 2.0},
        "accuracy": {"masked": 0.1},
        "lr": 1e-3,
        "seconds": 1.0,
        "tokens": 10,
        "tokens_per_second": 5.0,
        "gradient": 1.0,
    },
    {"event": "held", "step": 1, "held": {"masked": {"loss": 2.0, "accuracy": 0.1}}},
    {"event": "dev", "step": 1, "scores": {"f1": 0.5, "accuracy": 0.5}},
    {"event": "finding", "step": 1, "fault": "x", "message": "y"},
    {
        "event": "end",
        "step": 2,
        "verdict": "ok",
        "held": {"masked": {"loss": 1.0, "accuracy": 0.2}},
    },
]


def texts(folder: Path) -> None:
    data = TEXT.encode()
    (folder / "a.txt").write_bytes(data)
    (folder / "b.txt.gz").write_bytes(gzip.compress(data, mtime=0))
    lines = "".join(json.dumps({"text": line, "n": 1}) + "\n" for line in TEXT.splitlines())
    (folder / "c.jsonl").write_text(lines)
    try:
        import zstandard
    except ImportError:
        return
    (folder / "d.txt.zst").write_bytes(zstandard.compress(data))


def rows(folder: Path) -> None:
    for task, records in ROWS.items():
        lines = [json.dumps(r, ensure_ascii=False) for r in records] * 2
        (folder / f"{task}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (folder / "table.tsv").write_text(TABLE, encoding="utf-8")
    (folder / "table.csv").write_text(TABLE.replace("\t", ","), encoding="utf-8")
    (folder / "tags.conll").write_text(CONLL, encoding="utf-8")
    (folder / "squad.json").write_text(json.dumps(SQUAD), encoding="utf-8")
    (folder / "plain.txt").write_text("天气\n今天\n", encoding="utf-8")


def settings(folder: Path) -> None:
    (folder / "settings.toml").write_text(SETTINGS)


def recipe(folder: Path) -> None:
    (folder / "recipe.toml").write_text(RECIPE)
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    rows(folder)
    shutil.copy(folder / "classify.jsonl", folder / "train.jsonl")


def tokenizer(kind: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        (folder / "text.txt").write_text(TEXT * 3, encoding="utf-8")
        size = {"byte-bpe": 300, "unigram": 43}.get(kind, 50)
        wanted = build(Vocabulary, {"kind": kind, "size": size, "hold_back": 0.0}, "vocab")
        made, _ = learn([folder / "text.txt"], wanted)
        made.save(folder)

    return make


def vocabulary_file(folder: Path) -> None:
    (folder / "vocab.txt").write_text("\n".join(tiny.VOCABULARY) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "do_lower_case": True,
                "strip_accents": None,
                "tokenizer_class": "BertTokenizer",
                "cls_token": {"content": "[CLS]"},
                "model_max_length": 512,
            }
        )
    )
    (folder / "special_tokens_map.json").write_text(json.dumps({"unk_token": "[UNK]"}))


def merges(folder: Path) -> None:
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "a", "b", "Ġ", "ab", "Ġab"]
    (folder / "vocab.json").write_text(json.dumps({n: i for i, n in enumerate(names)}))
    (folder / "merges.txt").write_text("#version: 0.2\na b\nĠ ab\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"add_prefix_space": true}')


def model(kind: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        written_model(folder, kind)
        (folder / "modules.json").write_text("[]")
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
        (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 16}')

    return make


def written_model(folder: Path, kind: str = "bert", heads: tuple[str, ...] | None = None) -> None:
    """A tiny model of a family with its first head and a tokenizer."""
    made = tiny.tokenizer()
    sizes = {**SIZES[kind], "positions": 32, "vocabulary": len(made)}
    config = build(family(kind).Config, sizes, "model")
    torch.manual_seed(1)
    known = tuple(family(kind).HEADS)
    first = next(h for h in ("masked", "causal", "generation", *known) if h in known)
    saved = checkpoint.create(kind, config, heads or (first,))
    saved.tokenizer = made
    saved.about = {"provenance": {"from": "a test"}, "limit": 16}
    checkpoint.write(folder, saved)


def shards(folder: Path) -> None:
    """The same model in two files with an index."""
    written_model(folder)
    tensors = checkpoint.read_tensors(folder)
    (folder / "model.safetensors").unlink()
    names, place = sorted(tensors), {}
    for number, part in enumerate((names[::2], names[1::2]), 1):
        file = f"model-{number:05d}-of-00002.safetensors"
        save_file({n: tensors[n] for n in part}, folder / file)
        place |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": 1}, "weight_map": place}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def classifier(folder: Path) -> None:
    """A model with a task of its own in tianci.json."""
    made = tiny.tokenizer()
    config = build(family("bert").Config, {**SIZES["bert"], "vocabulary": len(made)}, "model")
    saved = checkpoint.create("bert", config)
    saved.heads = {"sequence": checkpoint.fresh_task_head("bert", config, "sequence", 2)}
    saved.name_labels(("a", "b"))
    saved.tokenizer = made
    saved.about = {
        "task": {"name": "classify", "labels": ["a", "b"]}, "decision": {"threshold": 0.5},
        "limit": 16, "scores": {"dev": {"f1": 0.5}}, "labels": ["a", "b"],
    }  # fmt: skip
    checkpoint.write(folder, saved)
    rows(folder)


def adapted(folder: Path) -> None:
    written_model(folder / "base")
    model = checkpoint.read(folder / "base")
    model.heads = {
        "sequence": checkpoint.fresh_task_head("bert", model.model.config, "sequence", 2)
    }
    model.about = {"task": {"name": "classify", "labels": ["a", "b"]}}
    adapter.insert(model.model, model.model.config.width, 4)
    adapters.write(folder / "adapter", model, folder / "base")


def store(folder: Path) -> None:
    (folder / "vocab").mkdir()
    vocabulary_file(folder / "vocab")
    (folder / "text.txt").write_text(TEXT * 2, encoding="utf-8")
    rules = PrepareSettings(layout="lines", borders="blank", held=0.2)
    prepare([folder / "text.txt"], folder / "vocab", folder / "store", rules, threads=1)


def run(folder: Path) -> None:
    """A training run as `tianci page` and `--resume` read it."""
    place = folder / "runs" / "one"
    place.mkdir(parents=True)
    (place / "log.jsonl").write_text("\n".join(map(json.dumps, LOG)) + "\n")
    tables = {
        "pretrain": {"corpus": "store", "out": "x", "preset": "bert-tiny"},
        "train": {"steps": 2},
    }
    (place / "run.json").write_text(json.dumps({"tianci": "0", "seed": 0, "settings": tables}))
    tuned = folder / "runs" / "two"
    tuned.mkdir()
    (tuned / "run.json").write_text(
        json.dumps(
            {
                "tianci": "0",
                "task": "classify",
                "seed": 0,
                "task_settings": {},
                "settings": {"model": "m", "train": "t.jsonl", "out": "x", "epochs": 1},
            }
        )
    )
    (tuned / "scores.json").write_text(
        json.dumps(
            {
                "metric": "f1",
                "dev": {"f1": {"value": 0.5, "low": 0.4, "high": 0.6}},
                "test": {"f1": 0.5},
                "trials": [{"lr": 1e-3, "seed": 0, "dev": 0.5}],
            }
        )
    )


def saved(folder: Path) -> None:
    """A checkpoint of a run, with the moments of the optimizer."""
    written_model(folder / "model")
    model = checkpoint.read(folder / "model")
    adam = torch.optim.AdamW(model.model.parameters())
    for parameter in model.model.parameters():
        parameter.grad = torch.ones_like(parameter)
    adam.step()
    state.save(folder, model, adam, state.State(step=1, tokens=7, seconds=1.0), keep=1)


def mixed(folder: Path) -> None:
    """What `tianci verify` may be given: with a manifest, without one, an exported bundle."""
    written_model(folder / "sealed")
    for name in ("plain", "bundle"):
        shutil.copytree(folder / "sealed", folder / name)
        (folder / name / "manifest.json").unlink()
    (folder / "bundle" / "model.onnx").write_bytes(bytes(64))
    (folder / "bundle" / "export.json").write_text('{"task": "fill"}')
    manifest.seal(folder / "bundle")


def pickled(folder: Path) -> None:
    """A model as old versions of transformers wrote it."""
    written_model(folder)
    torch.save(checkpoint.read_tensors(folder), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def tensorflow(folder: Path) -> None:
    for name in ("bert_config.json", "bert_model.ckpt.index", "vocab.txt"):
        shutil.copy(GOLDEN / name, folder / name)
    name = "bert_model.ckpt.data-00000-of-00001"
    shutil.copy(GOLDEN / name, folder / name)


def vectors(folder: Path) -> None:
    np.save(folder / "v.npy", np.ones((3, 4), np.float32))
