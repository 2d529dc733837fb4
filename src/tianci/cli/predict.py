"""tianci predict"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from tianci.cli.command import Run, command
from tianci.cli.engines import usually_torch
from tianci.cli.quick_torch import import_torch

TOGETHER = 512  # rows that are answered together; the first answers come after so many


@command(
    "predict",
    example='tianci predict runs/hotel reviews.jsonl > answers.jsonl\necho "房间很干净" | '
    "tianci predict runs/hotel -",
)
@click.argument("model")
@click.argument("file")
@click.option("--out", metavar="FILE", help="write the lines here instead of standard output")
@click.option("--column", multiple=True, help="which column is which, for example text=review")
@click.option("--keep", is_flag=True, help="repeat the columns of each row in its line")
@usually_torch
def predict(
    run: Run,
    model: str,
    file: str,
    out: str | None,
    column: tuple[str, ...],
    keep: bool,
    engine: str,
    int8: bool,
) -> None:
    """Writes one JSON line per row of FILE (- is standard input), in order.

    A row that cannot be read is reported on standard error with its line, gets {"error": ...} as
    its answer, and does not stop the rest; the exit code is then 1.
    """
    import_torch()
    import sys

    from tqdm import tqdm

    from tianci.data.rows import stream_rows
    from tianci.files import write_file
    from tianci.serve.predictor import load
    from tianci.tune.settings import Finetune

    predictor = load(model, mapped=True, engine=engine, int8=int8)
    columns = Finetune(column=list(column)).columns
    rows = stream_rows(file, predictor.task.columns(), columns)
    bad = 0
    lines: list[str] = []
    for row, found in _answers(predictor, tqdm(rows, unit="row", delay=2, disable=run.quiet)):
        if isinstance(row, Exception):
            bad += 1
            tqdm.write(f"tianci: {row}", file=sys.stderr)
        elif keep:
            found = {**row.extra, **row.values, **found}
        text = json.dumps(found, ensure_ascii=False)
        if out is None:
            click.echo(text)
        else:
            lines.append(text + "\n")
    if out is not None:
        write_file(out, "".join(lines))
    if bad:
        run.note(f"{bad} rows could not be read")
        sys.exit(1)


def _answers(predictor: Any, rows: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Each row (or what was wrong with it) and its answer, in order."""
    from tianci.data.rows import Row
    from tianci.data.rows_lines import RowError

    waiting: list[Any] = []
    size = 1  # the first answer comes at once; then more and more together
    for row in rows:
        if not isinstance(row, Row | RowError):
            raise row  # not about a row: there are none
        waiting.append(row)
        if len(waiting) >= size:
            yield from _answer_all(predictor, waiting, Row)
            waiting, size = [], min(TOGETHER, 2 * size)
    yield from _answer_all(predictor, waiting, Row)


def _answer_all(
    predictor: Any, rows: list[Any], kind: type[Any]
) -> Iterator[tuple[Any, dict[str, Any]]]:
    from tianci.errors import UserError

    try:
        good = iter(predictor.predict([row for row in rows if isinstance(row, kind)]))
    except UserError as error:  # a row that only the task finds wrong (no choices, ...)
        places = tuple(row.place for row in rows if isinstance(row, kind))
        if not str(error).startswith(places):
            raise  # not about a row: it would be said of each of them
        if len(rows) == 1:
            yield error, {"error": str(error)}
            return
        for row in rows:  # alone, so that the others are answered
            yield from _answer_all(predictor, [row], kind)
        return
    for row in rows:
        yield row, (next(good) if isinstance(row, kind) else {"error": str(row)})
