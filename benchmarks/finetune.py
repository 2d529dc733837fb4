"""Fine-tuning a classifier: tianci beside the Trainer of transformers.

Both learn from the same rows of online_shopping (real, ragged reviews, cut at 128 tokens), batches
of 16, dropout 0.1, AdamW, clipping, a model of the same size with the same vocabulary. The Trainer
runs at its defaults (shuffled, padded to the longest of the batch) and with its length grouping.
Where products in bf16 are faster on this machine, both run with it as well. One call is one epoch
over the rows.

    python benchmarks/finetune.py [--rounds 5] [--size small|base|minilm ...] [--rows 800]
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import random
import tempfile
import threading
from pathlib import Path
from typing import Any

from arena import battle, machine, padding, read_options

BATCH, LENGTH = 16, 128
MINILM = {"width": 384, "layers": 6, "heads": 12, "hidden": 1536}  # of sentence-transformers
ROWS = Path(__file__).resolve().parents[2] / "shared/data/online_shopping/train.jsonl.gz"


def material(size: str, count: int) -> tuple[Any, Any, Any]:
    """(task, tokenizer, examples), the same for every contestant."""
    from tianci.data.rows import read_rows
    from tianci.goals.tasks import make_task
    from tianci.text.learn import Vocabulary, learn

    task = make_task("classify")
    every = read_rows(ROWS, task.columns())
    task, rows = task.learn(every), every[:count]
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write("\n".join(str(row.values["text"]) for row in every))
        file.flush()
        tokenizer, _ = learn([file.name], Vocabulary(kind="char", size=4000, min_frequency=1))
    return task, tokenizer, task.examples(rows, tokenizer, LENGTH, labelled=True)


def sizes(size: str, vocabulary: int) -> Any:
    from tianci.models import preset

    known: Any = preset("mini" if size == "minilm" else size)[1]
    if size == "minilm":
        known = dataclasses.replace(known, **MINILM)
    return dataclasses.replace(known, vocabulary=vocabulary, dropout=0.1, attention_dropout=0.1)


def ours(size: str, count: int, bf16: bool = False) -> tuple[Any, int]:
    from tianci import checkpoint
    from tianci.goals.base import Joint
    from tianci.train.examples import Position
    from tianci.train.loop import Loop
    from tianci.train.memory import keep_few_kernels, keep_freed_memory
    from tianci.train.parallel import World
    from tianci.train.settings import Train
    from tianci.train.state import State
    from tianci.tune import strategy
    from tianci.tune.rows_source import RowsSource
    from tianci.tune.settings import Finetune
    from tianci.tune.start import give_head

    keep_freed_memory()
    keep_few_kernels()
    task, tokenizer, examples = material(size, count)
    settings = Finetune()
    model = checkpoint.create("bert", sizes(size, len(tokenizer)), ())
    give_head(model, task, settings)
    adam = strategy.optimizer(model, settings, 1e-5)
    source = RowsSource(task, examples, BATCH, 0)
    train = Train(epochs=1, micro_tokens=task.piece_tokens)  # as tianci finetune does it

    def call() -> None:
        at = State(position=Position())
        Loop(
            model, Joint((task,)), adam, train, 1e-5, 0.1, lambda phase: source, at,
            World(), bf16, 0, *[lambda told: None] * 4,
        ).run()  # fmt: skip

    return call, sum(example.length for example in examples)


def trainer(size: str, count: int, group: bool = False, bf16: bool = False) -> tuple[Any, int]:
    """The Trainer in a thread of its own, which runs one epoch for each call."""
    import torch
    import transformers as hf

    from tianci.checkpoint import config_to_public
    from tianci.models import bert

    _, tokenizer, examples = material(size, count)
    folder = tempfile.mkdtemp()
    tokenizer.save(folder)
    config = hf.BertConfig(**config_to_public(bert.PUBLIC, sizes(size, len(tokenizer))))
    rows = [
        {"input_ids": list(e.parts[0].ids), "token_type_ids": list(e.parts[0].segments),
         "labels": int(e.target)} for e in examples
    ]  # fmt: skip
    steps = -(-len(rows) // BATCH)
    go, done = threading.Semaphore(0), threading.Semaphore(0)

    class Gate(hf.TrainerCallback):
        def on_step_begin(self, *given: Any, **named: Any) -> None:
            go.acquire()

        def on_step_end(self, *given: Any, **named: Any) -> None:
            done.release()

    arguments = hf.TrainingArguments(
        output_dir=folder, per_device_train_batch_size=BATCH, num_train_epochs=10_000,
        save_strategy="no", report_to="none", logging_steps=500, disable_tqdm=True, use_cpu=True,
        train_sampling_strategy="group_by_length" if group else "random", bf16=bf16,
    )  # fmt: skip
    collate = hf.DataCollatorWithPadding(hf.AutoTokenizer.from_pretrained(folder))
    theirs = hf.Trainer(
        model=hf.BertForSequenceClassification(config), args=arguments, train_dataset=rows,
        data_collator=collate, callbacks=[Gate()],
    )  # fmt: skip
    threads = torch.get_num_threads()

    def run() -> None:
        torch.set_num_threads(threads)
        theirs.train()

    threading.Thread(target=run, daemon=True).start()

    def call() -> None:
        go.release(steps)
        for _ in range(steps):
            done.acquire()

    return call, sum(example.length for example in examples)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", default="small")
    parser.add_argument("--rows", type=int, default=800)
    given = read_options(parser, rounds=1, rows=200)
    if not ROWS.exists():
        print("skipped: the real rows (../shared/data/online_shopping) are not on this machine")
        return
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    print(machine())
    from tianci.train.probe import bf16_is_faster

    same = {"size": given.size, "count": given.rows}
    field = [
        ("transformers Trainer", "finetune:trainer", same),
        ("transformers Trainer, group_by_length", "finetune:trainer", {**same, "group": True}),
        ("tianci", "finetune:ours", same),
    ]
    if bf16_is_faster("cpu"):
        half = {**same, "bf16": True}
        field += [
            ("Trainer, group_by_length, bf16", "finetune:trainer", {**half, "group": True}),
            ("tianci, bf16", "finetune:ours", half),
        ]
    lengths = [example.length for example in material(given.size, given.rows)[2]]
    shuffled = random.Random(0).sample(lengths, len(lengths))
    factors = [
        padding(order[i : i + BATCH] for i in range(0, len(order), BATCH))
        for order in (shuffled, sorted(lengths))
    ]
    title = (
        f"{given.size}, {given.rows} reviews of at most {LENGTH} tokens, batches of {BATCH}, padded"
        f" for the peer: {factors[0]:.2f} places a token, {factors[1]:.2f} if all were sorted"
    )
    battle(title, field, given.rounds, seconds=1.0)


if __name__ == "__main__":
    main()
