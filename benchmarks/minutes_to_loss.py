"""How many minutes to the same held-out loss: tianci beside transformers' run_mlm recipe.

The same text (wiki_zh), vocabulary, model size and threads, from fresh weights. The peers train for
so many minutes, tianci for a third and a fifth of them; all are then asked the same held-out
tokens, hidden one by one (15 %), by the same code.

- **run_mlm, defaults**: rows of 128 tokens across documents, DataCollatorForLanguageModeling,
  the Trainer as run_mlm.py leaves it: batches of 8, rate 5e-5, linear decay over 3 epochs.
- **run_mlm, configured**: the batch, rate, warm-up, decay and dropout of tianci for this size,
  with the rate at 0 at the end of its minutes, and bf16 where it is faster on this machine.
- **tianci**: `tianci pretrain --preset mini --objective masked --minutes ...`, nothing else.

    python benchmarks/minutes_to_loss.py [--minutes 6] [--preset mini] [--megabytes 30]
"""

from __future__ import annotations

import argparse
import gzip
import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from arena import machine, read_options

LENGTH = 128
TEXT = Path(__file__).resolve().parents[2] / "shared" / "data" / "wiki_zh" / "train.txt.gz"


def make_corpus(folder: Path, megabytes: float) -> None:
    from tianci.data.prepare import prepare
    from tianci.text.learn import Vocabulary, learn

    with gzip.open(TEXT) as file:
        text = file.read(int(megabytes * 1e6))
    (folder / "text.txt").write_bytes(text[: text.rindex(b"\n\n") + 2])
    (folder / "vocabulary").mkdir()
    learn([folder / "text.txt"], Vocabulary(kind="char", size=8000))[0].save(folder / "vocabulary")
    prepare([folder / "text.txt"], folder / "vocabulary", folder / "corpus")


def peer_rows(folder: Path) -> tuple[Any, list[dict[str, list[int]]]]:
    """(tokenizer, rows): all documents one behind the other, cut every 128 tokens (group_texts)."""
    from transformers import AutoTokenizer

    from tianci.data.corpus import Corpus
    from tianci.data.store import SplitStore

    tokenizer = AutoTokenizer.from_pretrained(folder / "vocabulary")
    store = SplitStore(Corpus(folder / "corpus").split("train"))
    parts = []
    for document in range(store.count()):
        borders = store.sentences(document)
        text = store.read(int(borders[0]), int(borders[-1]))
        parts += [[tokenizer.cls_token_id], text, [tokenizer.sep_token_id]]
    ids = np.concatenate(parts).astype(np.int64)
    rows = ids[: len(ids) // LENGTH * LENGTH].reshape(-1, LENGTH)
    return tokenizer, [{"input_ids": row} for row in rows.tolist()]


def peer(folder: Path, preset: str, minutes: float, configured: bool) -> tuple[Path, int]:
    """(model, tokens read)."""
    import torch
    import transformers as hf

    from tianci.checkpoint import config_to_public
    from tianci.models import bert
    from tianci.models import preset as find
    from tianci.train.presets import pace
    from tianci.train.probe import bf16_is_faster

    tokenizer, rows = peer_rows(folder)
    size: Any = find(preset)[1]
    good = pace(size.width, size.layers)
    config = hf.BertConfig(**config_to_public(bert.PUBLIC, size))
    config.vocab_size = len(tokenizer)
    if configured:
        config.hidden_dropout_prob = config.attention_probs_dropout_prob = good.dropout
    net = hf.BertForMaskedLM(config)
    out = folder / f"peer-{configured}"
    began, lasts = 0.0, 60 * minutes

    class Clock(hf.TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
            control.should_training_stop = time.monotonic() - began > lasts

    batch = good.batch_tokens // LENGTH if configured else 8
    optimizers: tuple[Any, Any] = (None, None)
    if configured:
        adam = torch.optim.AdamW(net.parameters(), lr=good.lr, weight_decay=0.01)

        def share(step: int) -> float:
            done = min(1.0, (time.monotonic() - began) / lasts) if began else 0.0
            return min(done / good.warmup, (1 - done) / (1 - good.warmup))

        optimizers = adam, torch.optim.lr_scheduler.LambdaLR(adam, share)
    arguments = hf.TrainingArguments(
        output_dir=str(out), save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=True,
        logging_strategy="no", per_device_train_batch_size=batch,
        bf16=configured and bf16_is_faster("cpu"),
    )  # fmt: skip
    trainer = hf.Trainer(
        model=net, args=arguments, train_dataset=rows, optimizers=optimizers, callbacks=[Clock()],
        data_collator=hf.DataCollatorForLanguageModeling(tokenizer),
    )  # fmt: skip
    trainer.remove_callback(hf.PrinterCallback)
    began = time.monotonic()
    trainer.train()
    net.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return out, trainer.state.global_step * batch * LENGTH


def ours(folder: Path, preset: str, minutes: float) -> tuple[Path, int]:
    """(model, tokens read)."""
    import tianci

    out = folder / f"ours-{minutes}"
    told = tianci.pretrain(
        corpus=folder / "corpus", preset=preset, objective="masked", minutes=minutes, out=out
    )
    return out, told["tokens"]


def judge(folder: Path, model: Path) -> dict[str, Any]:
    from tianci.evaluate.objectives import evaluate_objectives

    single = {"masked": {"whole_words": False}}
    return evaluate_objectives(model, folder / "corpus", "masked", single)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=6)
    parser.add_argument("--preset", default="mini")
    parser.add_argument("--megabytes", type=float, default=30)
    given = read_options(parser, minutes=0.3, preset="tiny", megabytes=2.0)
    if not TEXT.exists():
        print("skipped: the text (../shared/data/wiki_zh) is not on this machine")
        return
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    print(f"### Minutes to the same held-out loss, {given.preset}, {machine()}\n")
    print("| contestant | minutes | tokens read | held-out masked loss | accuracy |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_corpus(folder, given.megabytes)
        for who, run, minutes, rest in (
            ("run_mlm, defaults", peer, given.minutes, (False,)),
            ("tianci, a third", ours, given.minutes / 3, ()),
            ("run_mlm, configured", peer, given.minutes, (True,)),
            ("tianci, a fifth", ours, given.minutes / 5, ()),
        ):
            found, tokens = apart(run, folder, given.preset, minutes, *rest)
            told = judge(folder, found)
            print(
                f"| {who} | {minutes:.1f} | {tokens:,} | {told['masked_loss']:.3f} "
                f"| {told['masked_accuracy']:.1%} |",
                flush=True,
            )
        print(f"\nA model that knows frequencies only: {told['unigram_entropy']:.2f}.")


def apart(function: Any, *arguments: Any) -> Any:
    """In a process of its own, so that nobody inherits threads or memory."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as one:
        return one.submit(function, *arguments).result()


if __name__ == "__main__":
    main()
