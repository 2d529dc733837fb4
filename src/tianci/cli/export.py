"""tianci export"""

from __future__ import annotations

import click

from tianci.cli.command import Run, command


@command("export", example="tianci export runs/hotel --onnx --int8 --out bundle")
@click.argument("model")
@click.option("--onnx", is_flag=True, help="for onnxruntime and everything else that reads ONNX")
@click.option("--out", required=True, metavar="DIR", help="where the bundle goes")
@click.option("--int8", is_flag=True, help="smaller and faster; the answers change a little")
@click.option(
    "--what",
    type=click.Choice(["task", "embedding", "masked"]),
    help="which output (default: the model's task, else its vectors or its language model)",
)
@click.option("--texts", metavar="FILE", help="one text per line, to compare on besides our own")
def export(
    run: Run, model: str, onnx: bool, out: str, int8: bool, what: str | None, texts: str | None
) -> None:
    """Writes a bundle that runs without tianci: model.onnx, the tokenizer, export.json.

    The bundle is run and compared with tianci's own output; nothing is left if float32 differs by
    more than 1e-4, or if int8 keeps too few labels or too little of the vectors.
    """
    from pathlib import Path

    from tianci.errors import UserError
    from tianci.export import export as run_export
    from tianci.text.source import read_lines

    if not onnx:
        raise UserError("say which format: --onnx is the one there is")
    lines = [] if texts is None else [line for _, line in read_lines(Path(texts)) if line.strip()]
    facts = run_export(model, out, int8, what, lines)
    kept = facts.get("kept")
    told = f", {kept['kind']} {kept['value']:.4f}" if kept else ""
    run.result(
        facts,
        f"{facts['family']} ({facts['says']}, {facts['precision']}) -> {out}: "
        f"{facts['bytes']:,} bytes, largest difference {facts['largest_difference']:.1e}{told} "
        f"on {facts['compared']} texts",
    )
