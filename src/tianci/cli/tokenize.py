"""tianci tokenize"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tianci.cli.command import Run, command
from tianci.errors import UserError

if TYPE_CHECKING:
    from tianci.text.tokenizer import Encoded, Tokenizer

EXAMPLE = """
tianci tokenize vocab "今天天气不错" "Hello, world"
tianci tokenize vocab "谁写了红楼梦？" --pair "曹雪芹写了红楼梦。" --limit 16 --cut second
"""
BATCH = 1000


@command("tokenize", example=EXAMPLE)
@click.argument("model")
@click.argument("text", nargs=-1, required=True)
@click.option("--pair", multiple=True, help="second text; once for each TEXT")
@click.option("--limit", type=click.IntRange(1), help="most tokens, special ones included")
@click.option(
    "--cut",
    type=click.Choice(["longest", "first", "second"]),
    default="longest",
    show_default=True,
    help="which text of a pair gives way",
)
@click.option("--special/--no-special", default=True, help="[CLS] and [SEP] around the text")
def tokenize(
    run: Run,
    model: str,
    text: tuple[str, ...],
    pair: tuple[str, ...],
    limit: int | None,
    cut: str,
    special: bool,
) -> None:
    """Shows the tokens of each TEXT, their ids, and where they stand in it.

    MODEL is a directory with a tokenizer; TEXT may be - for the lines of standard input.
    """
    from tianci.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(model)
    if pair and len(pair) != len(text):
        raise UserError(f"{len(text)} texts but {len(pair)} times --pair; give one for each")
    texts = _texts(text)
    while batch := list(islice(texts, BATCH)):
        pairs = list(pair) or None
        for index, encoded in enumerate(
            tokenizer.encode(batch, pairs, limit=limit, cut=cut, special=special)
        ):
            second = pairs[index] if pairs else ""
            facts = _facts(tokenizer, encoded, batch[index], second)
            if run.json:
                click.echo(json.dumps(facts, ensure_ascii=False))
            else:
                click.echo(_table(encoded, batch[index], second))


def _texts(given: Iterable[str]) -> Iterator[str]:
    from tianci.text.source import read_lines

    for text in given:
        if text == "-":
            yield from (line for _, line in read_lines(Path("-")))
        else:
            yield text


def _facts(tokenizer: Tokenizer, encoded: Encoded, text: str, pair: str) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "text": text,
        "tokens": encoded.tokens,
        "ids": encoded.ids,
        "offsets": encoded.offsets,
        "segments": encoded.segments,
    }
    if tokenizer.number is not None:
        facts["numbers"] = tokenizer.numbers(encoded, text, pair)
    return facts


def _table(encoded: Encoded, text: str, pair: str) -> str:
    surfaces = encoded.surfaces(text, pair)
    rows = [f"{'id':>6}  {'offsets':<10} {'text':<16} token"]
    for id, token, (start, end), surface in zip(
        encoded.ids, encoded.tokens, encoded.offsets, surfaces, strict=True
    ):
        place = f"{start}-{end}" if end else "-"
        rows.append(f"{id:>6}  {place:<10} {surface!r:<16} {token}")
    return "\n".join(rows) + "\n"
