"""tianci pretrain"""

from __future__ import annotations

from typing import Any

import click

from tianci.cli.command import Run, command
from tianci.train.settings import Pretrain, Train

# Objectives and sizes are free tables here: they are checked where their names are known
SECTIONS = {
    "pretrain": Pretrain,
    "train": Train,
    "model": dict,
    "masked": dict,
    "next_sentence": dict,
    "sentence_order": dict,
    "causal": dict,
    "span": dict,
    "prefix": dict,
}


@command(
    "pretrain",
    example="tianci pretrain --corpus corpus --preset mini --minutes 30 --out runs/mini\n"
    "tianci pretrain --resume runs/mini\n"
    "tianci pretrain --from bert-base-chinese --corpus corpus --epochs 1 --out runs/ours\n"
    "torchrun --nproc-per-node 2 -m tianci pretrain --corpus corpus --steps 1000 --out runs/two",
    settings=SECTIONS,
)
@click.argument("recipe", required=False)
@click.option("--resume", metavar="DIR", help="go on with a run that was stopped")
def pretrain(run: Run, recipe: str | None, resume: str | None) -> None:
    """Pre-trains a model on a corpus made by tianci prepare; RECIPE is a TOML file with settings.

    Give --steps, --minutes, --epochs or --tokens (default: one epoch). Ctrl-C saves and says how to
    go on; after any stop --resume continues to the same bits as if nothing had happened.
    """
    from tianci.train.pretrain import pretrain as train

    summary = train(run.settings, seed=run.seed, quiet=run.quiet, resume=resume)
    if summary:  # only the first of several processes has something to say
        run.result(summary, lambda: _text(summary))


def _try(summary: dict[str, Any]) -> str:
    """What can be done with a model of this kind."""
    if "masked" in summary["held"]:
        return f"; try: tianci fill {summary['out']} TEXT_WITH_[MASK]"
    return f"; try: tianci score {summary['out']} TEXT" if "causal" in summary["held"] else ""


def _text(summary: dict[str, Any]) -> str:
    lines = [
        f"{summary['steps']:,} steps, {summary['tokens']:,} tokens in "
        f"{summary['seconds'] / 60:.1f} minutes: {summary['tokens_per_second']:,.0f} tokens/s, "
        f"{summary['share_of_peak']:.0%} of this machine's peak in {summary['precision']}",
        *(
            f"held-out {name}: loss {v['loss']:.3f}, accuracy {v['accuracy']:.1%} of {v['count']:,}"
            for name, v in summary["held"].items()
        ),
        summary["verdict"],
        f"the model is in {summary['out']}{_try(summary)}",
    ]
    return "\n".join(lines)
