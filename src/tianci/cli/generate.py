"""tianci generate"""

from __future__ import annotations

import json
import sys

import click

from tianci.cli.command import Run, command
from tianci.cli.quick_torch import import_torch


@command(
    "generate",
    example='tianci generate runs/gpt2 "今天天气" --max-new-tokens 40\n'
    'tianci generate runs/gpt2 "Once upon" "In the" --greedy --json\n'
    "tianci generate runs/titles - --beams 4 < abstracts.txt",
)
@click.argument("model")
@click.argument("texts", nargs=-1, required=True, metavar="TEXT...")
@click.option("--max-new-tokens", "longest", type=click.IntRange(1), help="most tokens of a text")
@click.option("--greedy", is_flag=True, help="always the likeliest token")
@click.option("--temperature", type=float, help="how wild tokens are drawn (0: greedy)")
@click.option("--top-k", type=int, help="draw from the k likeliest tokens")
@click.option("--top-p", type=float, help="draw from the likeliest tokens with this share together")
@click.option("--min-p", type=float, help="draw from tokens with this share of the likeliest one's")
@click.option("--beams", type=int, help="follow so many texts side by side")
@click.option("--length-penalty", type=float, help="beams are compared by score / length ** this")
@click.option("--repetition-penalty", "repetition", type=float, help="above 1: repeat less")
@click.option("--no-repeat", type=int, help="no run of so many tokens comes twice")
@click.option("--stop", multiple=True, help="a string that ends the text; repeatable")
def generate(
    run: Run,
    model: str,
    texts: tuple[str, ...],
    greedy: bool,
    stop: tuple[str, ...],
    **how: float | int | None,
) -> None:
    """Writes on behind each TEXT (- reads one text per line from standard input).

    Decoders draw with temperature 0.8 and top-p 0.95 unless told otherwise; T5 and models
    fine-tuned for generate write a text of their own, the likeliest one or as their settings say. A
    T5 that was only pre-trained fills in what <extra_id_0>, <extra_id_1>, ... stand for. The same
    seed gives the same texts, whatever stands beside.
    """
    import_torch()
    from tianci.errors import UserError
    from tianci.serve.predictor import load
    from tianci.serve.writing import continues

    if greedy and (how["temperature"] or (how["beams"] or 1) > 1):
        raise UserError("--greedy takes the likeliest token; it goes with neither --temperature "
                        "nor --beams")  # fmt: skip
    if greedy:
        how["temperature"] = 0.0
    asked = [line.rstrip("\n") for line in sys.stdin] if texts == ("-",) else list(texts)
    predictor = load(model, mapped=True)
    live = len(asked) == 1 and not run.json and sys.stdout.isatty()
    before = asked if continues(predictor) else [""] * len(asked)
    shown = [before[0] if before else ""]

    def tell(_: int, text: str) -> None:
        whole = before[0] + text
        if not text.endswith("\ufffd"):  # half a character: wait for the rest
            click.echo(whole[len(shown[0]) :], nl=False)
            shown[0] = whole

    if live:
        click.echo(before[0], nl=False)
    told = tell if live and (how["beams"] or 1) == 1 else None
    found = predictor.generate(asked, stop=stop, tell=told, seed=run.seed, **how)
    for text, one in zip(before, found, strict=True):
        if run.json:
            click.echo(json.dumps(one, ensure_ascii=False))
        elif live:
            click.echo((text + one["text"])[len(shown[0]) :])
        else:
            click.echo(text + one["text"])
