"""Quality of fine-tuning: tianci beside transformers from the same weights, rows, epochs and rate.

The peer is its Trainer with its Auto* class, length grouping, linear rate with warm-up 0.1, weight
decay 0.01, clipping at 1: what `tianci finetune` does too. Both read the same token ids (the
tokenizers are compared elsewhere), learn from the same rows, and are judged by the same code on the
same dev rows after the last epoch; thresholds come from dev for both. 3 seeds each.

    python benchmarks/quality.py MODEL SET... [--seeds 3] [--epochs 2] [--rows 4000] [--out DIR]

Rows of passages are long and learning takes many of them: `--longest 400` leaves out those whose
passage has more characters, for both sides.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from arena import read_options

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


class Set(NamedTuple):
    task: str
    metric: str
    train: str = "train.jsonl.gz"
    dev: str = "dev.jsonl.gz"
    length: int = 128


SETS = {
    "sst2": Set("classify", "accuracy", dev="dev.jsonl"),
    "mrpc": Set("pair", "accuracy", dev="dev.jsonl"),
    "rte": Set("pair", "accuracy", dev="dev.jsonl"),
    "stsb_en": Set("regress", "spearman"),
    "cola": Set("classify", "mcc", dev="dev.jsonl"),
    "conll2003": Set("tag", "f1", "train.conll.gz", "dev.conll.gz"),
    "squad2_half": Set("answer", "f1", "train.json.gz", "dev.json.gz", 256),
    "chnsenticorp": Set("classify", "accuracy"),
    "lcqmc": Set("pair", "accuracy", dev="dev.jsonl"),
    "people_daily_ner": Set("tag", "f1", "train.conll.gz", "dev.conll.gz"),
    "cluener": Set("tag", "f1", "train.conll.gz", "dev.conll.gz"),
    "cmrc2018": Set("answer", "f1", "train.json.gz", "dev.json.gz", 256),
    "c3": Set("choose", "accuracy", length=128),
}
CLASSES = {
    "classify": "AutoModelForSequenceClassification",
    "pair": "AutoModelForSequenceClassification",
    "regress": "AutoModelForSequenceClassification",
    "tag": "AutoModelForTokenClassification",
    "answer": "AutoModelForQuestionAnswering",
    "choose": "AutoModelForMultipleChoice",
}


def rows_of(name: str, given: Any) -> tuple[Any, list[Any], list[Any]]:
    """(task with its labels, training rows, dev rows); always the same draw."""
    from tianci.data.rows import read_rows
    from tianci.goals.tasks import make_task

    kind = SETS[name]
    task = make_task(kind.task)
    train = read_rows(DATA / name / kind.train, task.columns())
    dev = read_rows(DATA / name / kind.dev, task.columns())
    if kind.task == "choose":  # transformers wants the same number of choices everywhere
        train = [row for row in train if len(row.values["choices"]) == 4]
    for rows, most, seed in ((train, given.rows, 1), (dev, given.dev_rows, 2)):
        if given.longest:
            rows[:] = [r for r in rows if len(r.values.get("context", "")) <= given.longest]
        random.Random(seed).shuffle(rows)
        del rows[most or len(rows) :]
    return task.learn(train), train, dev


def ours(model: str, name: str, seed: int, given: Any) -> tuple[float, float]:
    """(score after the last epoch, seconds)."""
    from tianci.tune.settings import Finetune
    from tianci.tune.trial import run_trial
    from tianci.tune.work import Work

    task, train, dev = rows_of(name, given)
    settings = Finetune(
        model=model, epochs=given.epochs, batch=given.batch, length=SETS[name].length,
        patience=0, lr=str(given.lr), metric=SETS[name].metric,
    )  # fmt: skip
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        work = Work(settings, task, train, dev, SETS[name].length, quiet=True)
        result = run_trial(work, given.lr, seed, Path(folder) / "run")
    return result.history[-1]["scores"][SETS[name].metric], time.monotonic() - began


def padded(task: str, examples: list[Any]) -> dict[str, Any]:
    """A batch as the Auto* classes want it."""
    import torch

    parts = [part for example in examples for part in example.parts]
    longest = max(len(part.ids) for part in parts)

    def grid(lists: list[list[int]], fill: int) -> Any:
        return torch.tensor([one + [fill] * (longest - len(one)) for one in lists])

    batch = {
        "input_ids": grid([list(part.ids) for part in parts], 0),
        "token_type_ids": grid([list(part.segments) for part in parts], 0),
        "attention_mask": grid([[1] * len(part.ids) for part in parts], 0),
    }
    if task == "choose":
        batch = {k: v.view(len(examples), -1, longest) for k, v in batch.items()}
    if task == "tag":
        labels = torch.full((len(examples), longest), -100)
        for i, example in enumerate(examples):
            labels[i, example.info.at] = torch.tensor(example.target)
        return {**batch, "labels": labels}
    targets = torch.tensor([example.target for example in examples])
    if task == "answer":
        return {**batch, "start_positions": targets[:, 0], "end_positions": targets[:, 1]}
    return {**batch, "labels": targets}


def theirs(model: str, name: str, seed: int, given: Any) -> tuple[float, float]:
    import torch
    import transformers as hf

    from tianci import checkpoint
    from tianci.evaluate.tasks import answer

    task, train, dev = rows_of(name, given)
    kind = SETS[name]
    tokenizer = checkpoint.read(Path(model)).tokenizer
    assert tokenizer is not None
    examples = task.examples(train, tokenizer, kind.length, labelled=True)
    hf.set_seed(seed)
    options = {} if kind.task in ("answer", "choose") else {"num_labels": task.outputs}
    net = getattr(hf, CLASSES[kind.task]).from_pretrained(model, **options)
    with tempfile.TemporaryDirectory() as folder:
        arguments = hf.TrainingArguments(
            output_dir=folder, per_device_train_batch_size=given.batch, learning_rate=given.lr,
            num_train_epochs=given.epochs, warmup_steps=0.1, weight_decay=0.01, seed=seed,
            train_sampling_strategy="group_by_length", remove_unused_columns=False,
            save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=True,
            logging_strategy="no",
        )  # fmt: skip
        rows = [{"input_ids": [0] * e.length, "example": e} for e in examples]  # ids: for grouping
        trainer = hf.Trainer(
            model=net, args=arguments, train_dataset=rows,
            data_collator=lambda some: padded(kind.task, [one["example"] for one in some]),
        )  # fmt: skip
        began = time.monotonic()
        trainer.train()
        seconds = time.monotonic() - began
        net.save_pretrained(folder)
        tokenizer.save(folder)
        with torch.inference_mode():
            said = answer(checkpoint.read(Path(folder)), task, dev, kind.length)
        return task.score(dev, said, task.decide(dev, said))[kind.metric], seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("sets", nargs="+", choices=sorted(SETS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=float, default=2)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--dev-rows", type=int, default=2000)
    parser.add_argument("--longest", type=int, default=0, help="characters of a passage; 0: all")
    parser.add_argument("--out", help="a file that gets one JSON line per training")
    given = read_options(parser, seeds=1, epochs=0.5, rows=400, dev_rows=200)
    if not DATA.exists():
        print("skipped: the real rows (../shared/data) are not on this machine")
        return
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    print("| set | metric | transformers | tianci | difference |\n|---|---|---|---|---|")
    for name in given.sets:
        scores: dict[str, list[float]] = {"transformers": [], "tianci": []}
        for seed in range(1, given.seeds + 1):
            for who, run in (("transformers", theirs), ("tianci", ours)):
                score, seconds = run(given.model, name, seed, given)
                scores[who].append(score)
                if given.out:
                    line = {"set": name, "who": who, "seed": seed, "score": score,
                            "seconds": seconds, **vars(given)}  # fmt: skip
                    with open(given.out, "a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")
        told = {who: _spread(found) for who, found in scores.items()}
        gap = statistics.mean(scores["tianci"]) - statistics.mean(scores["transformers"])
        print(f"| {name} | {SETS[name].metric} | {told['transformers']} | {told['tianci']} "
              f"| {gap:+.4f} |", flush=True)  # fmt: skip


def _spread(scores: list[float]) -> str:
    spread = f" ± {statistics.stdev(scores):.4f}" if len(scores) > 1 else ""
    return f"{statistics.mean(scores):.4f}{spread}"


if __name__ == "__main__":
    main()
