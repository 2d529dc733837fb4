"""From the start of a command to its first answer: tianci beside transformers' pipeline.

    python benchmarks/start.py [--rounds 5] [--preset mini] [--short]

All read the same directory (a fresh classifier of that size) and answer one text, each time in a
new process: `tianci predict`, also with other engines (which are compared with torch before they
answer, so they start later); the exported bundle in onnxruntime as docs/exporting.md shows it,
without torch and tianci; the pipeline. They take turns with a plain import of torch. Reported:
medians of the seconds on the clock until the answer is there and until the process has ended, and
of the processor; ratios are those of the first.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from arena import machine, read_options

PIPELINE = """
import sys
from transformers import pipeline
print(pipeline("text-classification", model=sys.argv[1])("The room was clean.")[0])
"""
BUNDLE = """
import json, sys
from pathlib import Path
import numpy as np
import onnxruntime
import tokenizers
place = Path(sys.argv[1])
about = json.loads((place / "export.json").read_text())
tokenizer = tokenizers.Tokenizer.from_file(str(place / "tokenizer.json"))
tokenizer.enable_truncation(about["limit"])
session = onnxruntime.InferenceSession(place / "model.onnx")
rows = tokenizer.encode_batch(["The room was clean."])
fields = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
inputs = {name: np.array([getattr(r, fields[name]) for r in rows]) for name in about["inputs"]}
scores = np.exp(session.run(["logits"], inputs)[0] / (about["temperature"] or 1))
print([dict(zip(about["labels"], (row / row.sum()).tolist())) for row in scores], flush=True)
"""
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "room", "was", "clean", "."]


def make(folder: Path, size: str) -> None:
    """A directory that both can read; its vocabulary is short, its table is not."""
    from tianci import checkpoint
    from tianci.goals.tasks import make_task
    from tianci.models import preset
    from tianci.text.tokenizer import Tokenizer

    (folder / "vocab").mkdir()
    (folder / "vocab" / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    kind, config = preset(f"bert-{size}")
    saved = checkpoint.create(kind, config)
    task = make_task("classify", {"labels": ["bad", "good"]})
    saved.heads["sequence"] = checkpoint.fresh_task_head(kind, config, "sequence", 2)
    saved.tokenizer = Tokenizer.load(folder / "vocab")
    saved.about = {"task": task.as_table()}
    saved.name_labels(task.labels)
    checkpoint.write(folder / "model", saved)
    (folder / "text.txt").write_text("The room was clean.\n")


def measure(command: list[str]) -> tuple[float, float, float]:
    """Seconds to the first line of the answer, to the end, and of the processor."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    # what was compiled once is kept, as after an installation, whatever this shell says
    kept = {name: v for name, v in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**kept, "HF_HUB_OFFLINE": "1"}
    ) as process:
        assert process.stdout
        line = process.stdout.readline()
        first = time.perf_counter() - began
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode or not line:
        raise SystemExit(f"{command[:4]} failed; its messages are above")
    return first, took, (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--preset", default="mini")
    chosen = read_options(options, rounds=2)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, chosen.preset)
        model = str(folder / "model")
        run, bundle = [sys.executable, "-m", "tianci"], str(folder / "bundle")
        subprocess.run([*run, "export", model, "--onnx", "--out", bundle, "-q"], check=True)
        predict = [*run, "predict", model, str(folder / "text.txt")]
        commands = {
            "tianci predict": predict,
            "tianci predict --engine openvino": [*predict, "--engine", "openvino"],
            "tianci predict --engine onnx": [*predict, "--engine", "onnx"],
            "tianci's bundle in onnxruntime": [sys.executable, "-c", BUNDLE, bundle],
            "python -c 'import torch' (the floor)": [
                sys.executable, "-c", "import torch; print(1, flush=True)"],
            "transformers pipeline": [sys.executable, "-c", PIPELINE, model],
            "tianci --help": [*run, "--help"],
        }  # fmt: skip
        found: dict[str, list[tuple[float, float, float]]] = {who: [] for who in commands}
        for turn in range(chosen.rounds + 1):
            for who in list(commands)[:: 1 if turn % 2 else -1]:
                measured = measure(commands[who])
                if turn:  # the first one warms the disk's cache
                    found[who].append(measured)
    print(f"\n### Start to first answer, bert-{chosen.preset}, {machine()}\n")
    print("| command | seconds to the answer | to the end | of the processor | ratio |")
    print("|---|---|---|---|---|")
    ours = [first for first, _, _ in found["tianci predict"]]
    for who, times in found.items():
        ratio = statistics.median(t[0] / o for t, o in zip(times, ours, strict=True))
        first, end, cpu = (statistics.median(one[n] for one in times) for n in range(3))
        print(f"| {who} | {first:.2f} | {end:.2f} | {cpu:.2f} | {ratio:.2f} |")
    print(json.dumps(found), file=sys.stderr)


if __name__ == "__main__":
    main()
