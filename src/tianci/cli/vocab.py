"""tianci vocab"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from tianci.cli.command import Run, command
from tianci.errors import UserError
from tianci.text.learn import Vocabulary

EXAMPLE = """
tianci vocab texts/ --kind char --size 8000 --out vocab
zcat news.gz | tianci vocab - --kind byte-bpe --size 16000 --out vocab --json
"""
OURS = {"tokenizer.json", "tokenizer_config.json", "vocab.txt", "tianci.json", "manifest.json"}


@command("vocab", example=EXAMPLE, settings={"vocab": Vocabulary})
@click.argument("text", nargs=-1, required=True)
@click.option("--out", required=True, metavar="DIR", help="where to write the tokenizer")
def vocab(run: Run, text: tuple[str, ...], out: str) -> None:
    """Learns a vocabulary (tokenizer) from raw text.

    TEXT is files (plain or .jsonl, also .gz or .zst), directories, globs, or - for standard input.
    """
    from tqdm import tqdm

    from tianci import __version__, manifest
    from tianci.claim import claim
    from tianci.files import write_directory, write_json
    from tianci.settings import as_table
    from tianci.text.learn import learn
    from tianci.text.source import find_files, total_bytes

    _check_target(Path(out))
    wanted = run.get(Vocabulary)
    files = find_files(text)
    began = time.monotonic()
    # delay: nothing to see when it takes less than two seconds
    with (
        claim(out),
        tqdm(
            total=total_bytes(files),
            desc="reading",
            unit="B",
            unit_scale=True,
            delay=2,
            disable=run.quiet,
        ) as reading,
        tqdm(total=wanted.size, desc="learning", delay=2, disable=run.quiet) as learning,
    ):
        tokenizer, report = learn(files, wanted, reading.update, learning.update)
        with write_directory(out) as directory:
            tokenizer.save(directory)
            # what ran, beside what came of it; no times in it, so that the same text gives the
            # same files
            settings = {"vocab": as_table(wanted)}
            about = {"tianci": __version__, "settings": settings, "report": report}
            write_json(directory / "tianci.json", about)
            manifest.seal(directory)
    report = {"out": out, **report, "seconds": round(time.monotonic() - began, 1)}
    run.result(report, lambda: _table(report))


def _check_target(out: Path) -> None:
    """A directory with other things in it is not ours to replace."""
    if out.is_dir():
        others = sorted(path.name for path in out.iterdir() if path.name not in OURS)
        if others:
            raise UserError(f"{out} holds other files ({others[0]}, ...); give a new directory")


def _table(report: dict[str, Any]) -> str:
    words = f"{report['words']:,}, {report['different_words']:,} of them different"
    rows = [
        ("written to", report["out"]),
        ("kind, size", f"{report['kind']}, {report['size']:,}"),
        ("lines", f"{report['lines']:,}"),
        ("words", words),
        ("measured on", f"{report['lines_measured']:,} {report['measured_on']}"),
        ("characters covered", f"{report['characters_covered']:.3%}"),
        ("unknown tokens", f"{report['unknown_rate']:.3%}"),
        ("tokens per word", f"{report['tokens_per_word']:.3f}"),
        ("seconds", f"{report['seconds']}"),
    ]
    return "\n".join(f"{name:<20}{value}" for name, value in rows)
