"""tianci rank"""

from __future__ import annotations

import json

import click

from tianci.cli.command import Run, command
from tianci.cli.quick_torch import import_torch


@command(
    "rank",
    example='tianci rank runs/gpt2 "这家酒店的房间很" 干净 脏\n'
    'tianci rank runs/gpt2 "The film was boring. My verdict:" " good" " bad" --json',
)
@click.argument("model")
@click.argument("context")
@click.argument("candidates", nargs=-1, required=True, metavar="CANDIDATE...")
@click.option("--by-mean", is_flag=True, help="order by the mean per token: fairer to long ones")
def rank(run: Run, model: str, context: str, candidates: tuple[str, ...], by_mean: bool) -> None:
    """Orders continuations of CONTEXT by how likely the model finds them: zero-shot tasks.

    A task becomes a choice between texts: write the question as the context and each answer as a
    candidate (with its blank in front, where the language has blanks). --json: one line each.
    """
    import_torch()
    from tianci.serve.predictor import load
    from tianci.serve.ranking import rank as order

    found = order(load(model, mapped=True), context, candidates)
    if by_mean:
        found.sort(key=lambda one: -one["mean"])
    for place, one in enumerate(found):
        if run.json:
            click.echo(json.dumps(one, ensure_ascii=False))
        else:
            mark = "*" if place == 0 else " "
            click.echo(
                f"{mark} {one['score']:10.3f}  {one['mean']:8.3f} per token  {one['share']:6.1%}"
                f"  {context}{one['text']}"
            )
