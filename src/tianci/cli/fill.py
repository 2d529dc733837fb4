"""tianci fill"""

from __future__ import annotations

import json

import click

from tianci.cli.command import Run, command
from tianci.cli.quick_torch import import_torch


@command("fill", example='tianci fill runs/mini "今天天气[MASK]错" --top 3')
@click.argument("model")
@click.argument("texts", nargs=-1, required=True, metavar="TEXT...")
@click.option(
    "--top", type=click.IntRange(1), default=5, show_default=True, help="candidates per mask"
)
def fill(run: Run, model: str, texts: tuple[str, ...], top: int) -> None:
    """Fills in: the most likely tokens for each [MASK] in a text, with their probabilities."""
    import_torch()
    from tianci.serve.predictor import load

    answers = load(model, mapped=True).fill(list(texts), top)
    for text, masks in zip(texts, answers, strict=True):
        if run.json:
            click.echo(json.dumps(masks, ensure_ascii=False))
            continue
        click.echo(text)
        for number, candidates in enumerate(masks, 1):
            click.echo(f"  mask {number}" if len(masks) > 1 else "")
            for one in candidates:
                bar = "█" * round(30 * one["score"])
                click.echo(f"  {one['score']:7.2%}  {one['token']:<12} {bar}")
