"""A training of a few steps, end to end: it learns, is saved, loaded, resumed to the same bits."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from tianci.doctor.check_error import CheckError

STEPS, LATER = 12, 6  # of the training; what comes after LATER is done twice
SENTENCES = (
    "我今天去公园看花，公园的花很好。",
    "老师在学校读书，学校的书很多。",
    "妈妈去商场买菜，商场的菜很新。",
    "the cat sat on the mat.",
    "朋友在酒店喝茶，酒店的茶很香。",
    "the dog ran to the park.",
)


def train_and_resume() -> str:
    """Vocabulary, token store, a few steps; the loss falls, and a resumed run has the same bits."""
    from tianci import checkpoint

    with tempfile.TemporaryDirectory(prefix="tianci-doctor-") as name:
        folder = Path(name)
        first, last = _train(folder)
        if not last < first:
            raise CheckError(f"the loss went from {first:.3f} to {last:.3f} in {STEPS} steps",
                         "torch learns wrongly here: reinstall it")  # fmt: skip
        whole = folder / "run/model.safetensors"
        wanted = whole.read_bytes()
        _go_on(folder)
        if whole.read_bytes() != wanted:
            raise CheckError("a resumed run has other weights than an uninterrupted one",
                         "results cannot be repeated here; try --threads 1")  # fmt: skip
        model = checkpoint.read(folder / "run")
        checkpoint.write(folder / "again", model)
        if (folder / "again/model.safetensors").read_bytes() != wanted:
            raise CheckError("a model that was saved and loaded has other weights",
                         "memory or disk are faulty")  # fmt: skip
    return (f"loss {first:.2f} to {last:.2f} in {STEPS} steps; saved, loaded and resumed to the "
            "same bits")  # fmt: skip


def _train(folder: Path) -> tuple[float, float]:
    """A run of STEPS steps in folder/run; its first and its last loss."""
    from tianci.data.prepare import PrepareSettings, prepare
    from tianci.text.learn import Vocabulary, learn
    from tianci.train.pretrain import pretrain
    from tianci.train.settings import Pretrain, Train

    text = folder / "text.txt"
    documents = ("\n".join(SENTENCES[n % 3 :] + SENTENCES[: n % 5]) for n in range(60))
    text.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    tokenizer, _ = learn([text], Vocabulary(kind="char", size=75, hold_back=0.0))
    (folder / "vocab").mkdir()
    tokenizer.save(folder / "vocab")
    settings = PrepareSettings(layout="lines", borders="blank", held=0.05)
    prepare([text], folder / "vocab", folder / "store", settings)
    sections = {
        "pretrain": Pretrain(str(folder / "store"), "bert-tiny", "masked", str(folder / "run")),
        "train": Train(steps=STEPS, length=32, batch_tokens=512, lr=1e-2, warmup=0.1,
                       save_every=LATER, precision="float32"),
        "model": {"width": 32, "layers": 2, "heads": 2, "hidden": 64, "positions": 32},
    }  # fmt: skip
    pretrain(sections, quiet=True)
    lines = (folder / "run/log.jsonl").read_text(encoding="utf-8").splitlines()
    losses = [entry["loss"] for entry in map(json.loads, lines) if "loss" in entry]
    return losses[0], losses[-1]


def _go_on(folder: Path) -> None:
    """As if the run had been killed after LATER steps."""
    from tianci.train.pretrain import pretrain

    shutil.rmtree(folder / f"run/checkpoints/step-{STEPS:08}")
    (folder / "run/model.safetensors").unlink()
    pretrain({}, resume=str(folder / "run"), quiet=True)
