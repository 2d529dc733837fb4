"""tianci embed"""

from __future__ import annotations

import click

from tianci.cli.command import Run, command
from tianci.cli.engines import usually_torch
from tianci.cli.quick_torch import import_torch


@command(
    "embed", example="tianci embed MODEL sentences.txt --out vectors.npy --pooling mean --normalize"
)
@click.argument("model")
@click.argument("file")
@click.option("--out", required=True, metavar="X.npy", help="where the vectors go")
@click.option(
    "--pooling", help="first, last, mean, max or mean-max (default: the model's own, else mean)"
)
@click.option(
    "--normalize/--no-normalize",
    default=None,
    help="vectors of length 1 (default: the model's own way)",
)
@usually_torch
def embed(
    run: Run,
    model: str,
    file: str,
    out: str,
    pooling: str | None,
    normalize: bool | None,
    engine: str,
    int8: bool,
) -> None:
    """Writes one vector per line of FILE (plain or .gz, - is standard input) as a NumPy array."""
    import_torch()
    import io
    from pathlib import Path

    import numpy as np
    from tqdm import tqdm

    from tianci.errors import UserError
    from tianci.files import write_file
    from tianci.serve.predictor import load
    from tianci.text.source import read_lines

    predictor = load(model, mapped=True, engine=engine, int8=int8)
    lines = [line for _, line in read_lines(Path(file))]
    if not lines:
        raise UserError(f"{file}: the file is empty; give one text per line")
    step = 1024  # lines between two moves of the bar
    starts = tqdm(
        range(0, len(lines), step), unit_scale=step, unit="line", delay=2, disable=run.quiet
    )
    parts = [predictor.embed(lines[i : i + step], pooling, normalize) for i in starts]
    vectors = np.concatenate(parts) if parts else predictor.embed([], pooling, normalize)
    content = io.BytesIO()
    np.save(content, vectors)
    write_file(out, content.getvalue())
    count, width = vectors.shape
    run.result(
        {"count": count, "width": width, "out": out}, f"{count} vectors of width {width} in {out}"
    )
