"""tianci search"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import click

from tianci.cli.command import Run, command
from tianci.cli.quick_torch import import_torch

TOGETHER = 256  # queries that share a walk over the corpus


@command(
    "search",
    example='tianci search runs/similar faq.txt "how do I get my money back" --top 3\n'
    "tianci search runs/similar faq.txt --file questions.txt --vectors faq.npy --json",
)
@click.argument("model")
@click.argument("corpus")
@click.argument("queries", nargs=-1, metavar="[QUERY]...")
@click.option(
    "--file",
    "files",
    multiple=True,
    metavar="F",
    help="queries from a file, one per line (plain or .gz, - is standard input); may be repeated",
)
@click.option("--top", type=click.IntRange(1), default=5, show_default=True, help="texts per query")
@click.option("--vectors", metavar="X.npy", help="keep the vectors of CORPUS here for next time")
def search(
    run: Run,
    model: str,
    corpus: str,
    queries: tuple[str, ...],
    files: tuple[str, ...],
    top: int,
    vectors: str | None,
) -> None:
    """Finds the lines of CORPUS that are most similar to each QUERY, by the cosine of their
    vectors.

    CORPUS has one text per line (plain or .gz). The search is exact. With --json each query gives
    one line: a list of `line` (from 1), `text` and `score`, best first.
    """
    if not queries and not files:
        raise click.UsageError("give a QUERY or --file F")
    import_torch()
    from pathlib import Path

    import numpy as np
    from tqdm import tqdm

    from tianci.errors import UserError
    from tianci.evaluate.neighbours import keep_vectors, nearest
    from tianci.serve.predictor import load
    from tianci.text.source import read_lines

    predictor = load(model, mapped=True)
    lines = [line for _, line in read_lines(Path(corpus))]
    if not any(line.strip() for line in lines):
        raise UserError(f"{corpus}: no text in it; give one text per line")

    def embed(texts: Any) -> Any:
        step = 1024  # lines between two moves of the bar
        starts = tqdm(
            range(0, len(texts), step), unit_scale=step, unit="line", delay=2, disable=run.quiet
        )
        return np.concatenate([predictor.embed(texts[i : i + step]) for i in starts])

    known = keep_vectors(Path(vectors), lines, embed) if vectors else embed(lines)
    written = np.array([bool(line.strip()) for line in lines])
    for group in _groups(_texts(queries, files)):
        answers = nearest(predictor.embed(group), known, top, written)
        for query, best in zip(group, answers, strict=True):
            found = [{"line": n + 1, "text": lines[n], "score": score} for n, score in best]
            _show(run, query, found)


def _show(run: Run, query: str, found: list[dict[str, Any]]) -> None:
    if run.json:
        click.echo(json.dumps(found, ensure_ascii=False))
        return
    click.echo(query)
    for one in found:
        click.echo(f"  {one['score']:7.4f}  line {one['line']:<7} {one['text']}")


def _groups(queries: Iterator[str]) -> Iterator[list[str]]:
    while group := list(islice(queries, TOGETHER)):
        yield group


def _texts(texts: tuple[str, ...], files: tuple[str, ...]) -> Iterator[str]:
    from pathlib import Path

    from tianci.text.source import read_lines

    yield from texts
    for file in files:
        for _, line in read_lines(Path(file)):
            yield line
