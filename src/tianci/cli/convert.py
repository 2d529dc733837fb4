"""tianci convert"""

from __future__ import annotations

import click

from tianci.cli.command import Run, command


@command("convert", example="tianci convert uncased_L-12_H-768_A-12 bert-base-uncased")
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
def convert(run: Run, source: str, target: str) -> None:
    """Converts a checkpoint to our layout (which is Hugging Face's, with safetensors).

    SRC is a directory with pytorch_model.bin, or a TensorFlow checkpoint of google-research/bert
    (bert_model.ckpt.*, bert_config.json, vocab.txt). The result is read back and compared with the
    source on a probe batch; nothing is written if outputs differ by more than 1e-4.
    """
    from tianci.convert import convert as run_conversion

    facts = run_conversion(source, target)
    run.result(
        facts,
        f"{facts['format']} -> {target}: {facts['architecture']}, "
        f"{facts['parameters']:,} parameters, "
        f"largest output difference {facts['largest_difference']:.1e}",
    )
