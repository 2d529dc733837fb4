"""tianci score"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import tee
from typing import Any

import click

from tianci.cli.command import Run, command
from tianci.cli.quick_torch import import_torch


@command(
    "score",
    example='tianci score runs/mini "我忘带伞了" "我网袋散了"\n'
    "tianci score runs/mini --file hypotheses.txt.gz --json",
)
@click.argument("model")
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option(
    "--file",
    "files",
    multiple=True,
    metavar="F",
    help="texts from a file, one per line (plain or .gz, - is standard input); may be repeated",
)
@click.option(
    "--whole-words",
    is_flag=True,
    help="hide the later pieces of a word too, so that long rare words get no gift",
)
def score(
    run: Run, model: str, texts: tuple[str, ...], files: tuple[str, ...], whole_words: bool
) -> None:
    """Says how likely a text is: the sum of its tokens' log-probabilities, the best text marked.

    A masked model is asked for one token at a time, each time with that token hidden; the sum is
    the pseudo-log-likelihood. A causal model reads once, from left to right. Higher (nearer to 0)
    is more likely. Texts of different length are better compared by the mean per token. A text
    longer than the model reads is judged in windows around (or before) each token.
    """
    if not texts and not files:
        raise click.UsageError("give a TEXT or --file F")
    import_torch()
    from tianci.serve.predictor import load

    # the texts are read while they are scored: nothing waits for the end of a file
    first, second = tee(_texts(texts, files))
    answers = zip(second, load(model, mapped=True).scores(first, whole_words), strict=True)
    if run.json:
        for text, answer in answers:
            click.echo(json.dumps({"text": text, **answer}, ensure_ascii=False))
    else:
        click.echo(_table(list(answers), details=not files))


def _texts(texts: tuple[str, ...], files: tuple[str, ...]) -> Iterator[str]:
    from pathlib import Path

    from tianci.text.source import read_lines

    yield from texts
    for file in files:
        for _, line in read_lines(Path(file)):
            yield line


def _table(found: list[tuple[str, dict[str, Any]]], details: bool) -> str:
    """One line per text, an arrow before the best; below it what each token costs."""
    scores = [answer["score"] for _, answer in found if answer["tokens"]]
    best = max(scores, default=None)
    lines = ["        score    per token  tokens  text"]
    for text, answer in found:
        mark = "→" if answer["tokens"] and answer["score"] == best and len(scores) > 1 else " "
        lines.append(
            f"{mark} {answer['score']:>11.3f}  {answer['mean']:>11.3f}"
            f"  {len(answer['tokens']):>6}  {text}"
        )
        if details:
            pairs = zip(answer["tokens"], answer["token_scores"], strict=True)
            costs = "  ".join(f"{token} {value:.1f}" for token, value in pairs)
            lines.append(f"{'':38}{costs}" if costs else f"{'':38}(no token)")
    return "\n".join(lines)
