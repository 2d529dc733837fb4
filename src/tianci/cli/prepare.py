"""tianci prepare"""

from __future__ import annotations

from typing import Any

import click

from tianci.cli.command import Run, command
from tianci.cli.quick_numpy import sort_fast

sort_fast()

from tianci.data import prepare as data  # noqa: E402
from tianci.data.statistics import bars  # noqa: E402


@command(
    "prepare",
    example="tianci prepare wiki.txt.gz news/ --tokenizer vocab --out corpus\n"
    "tianci prepare reviews.jsonl --field review --dedupe --tokenizer vocab --out corpus",
    settings={"prepare": data.PrepareSettings},
)
@click.argument("texts", nargs=-1, required=True, metavar="TEXT...")
@click.option("--tokenizer", required=True, metavar="DIR", help="a directory with a tokenizer")
@click.option("--out", required=True, metavar="DIR", help="where the token store goes")
@click.option("--estimate/--no-estimate", default=True, help="try how fast models train here")
def prepare(run: Run, texts: tuple[str, ...], tokenizer: str, out: str, estimate: bool) -> None:
    """Turns raw text into a token store that training reads without loading it.

    TEXT is a file (.txt, .jsonl, also .gz or .zst), a folder, a glob, or - for standard input.
    A run that was stopped goes on where it was when the same command is given again.
    """
    result = data.prepare(
        texts, tokenizer, out, run.get(data.PrepareSettings), threads=run.threads, quiet=run.quiet
    )
    if estimate and not run.quiet:
        from tianci.train.probe import minutes_per_epoch

        result["minutes_per_epoch"] = minutes_per_epoch(result["vocabulary"], result["tokens"])
    run.result(result, lambda: table(result))


def table(result: dict[str, Any]) -> str:
    """The end of the story for people: counts, lengths, entropies, faults."""
    held = result["splits"]["held"]
    rows = [
        ("documents", f"{result['documents']:,} ({held['documents']:,} held out)"),
        ("sentences", f"{result['sentences']:,}"),
        ("tokens", f"{result['tokens']:,} ({held['tokens']:,} held out)"),
        ("unknown tokens", f"{result['unknown_rate']:.3%}"),
        (
            "unigram entropy",
            f"{result['unigram_entropy']:.3f} nats: the loss of knowing only frequencies",
        ),
        (
            "bigram entropy",
            f"{result['bigram_entropy']:.3f} nats: the loss of knowing one token before",
        ),
        ("time", f"{result['seconds']:.1f} s, {result['megabytes_per_second']:.1f} MB/s"),
    ]
    lines = [f"{name:<17}{value}" for name, value in rows]
    for name in ("sentence", "document"):
        lines += ["", f"tokens per {name}", *bars(result[f"{name}_lengths"])]
    if "minutes_per_epoch" in result:
        lines += ["", "minutes per epoch on this machine (above mini reckoned, not tried)"]
        each = result["minutes_per_epoch"].items()
        lines.append("  " + ", ".join(f"{size} {minutes:,.1f}" for size, minutes in each))
    lines += ["", *_sources(result["sources"])]
    for fault in result["faults"]:
        lines += ["", f"{fault['name'].replace('_', ' ')}: {fault['count']:,} ({fault['advice']})"]
        lines += [f"  {_example(example)}" for example in fault["examples"]]
    lines += ["", f"written to {result['out']}"]
    return "\n".join(lines)


def _sources(sources: list[dict[str, str]]) -> list[str]:
    """How files were read, one line per way."""
    from tianci.data.documents import Form

    ways: dict[str, list[str]] = {}
    for source in sources:
        ways.setdefault(str(Form(source["layout"], source["borders"])), []).append(source["file"])
    return [
        f"read as {way}: {files[0]}" + (f" and {len(files) - 1:,} more" if len(files) > 1 else "")
        for way, files in ways.items()
    ]


def _example(example: dict[str, Any]) -> str:
    place = f"{example['file']}, line {example['line']}"
    if "times" in example:
        place += f" ({example['times']:,} times)"
    if example.get("copy_of"):
        place += f" (copy of {example['copy_of']})"
    if "script" in example:
        place += f" ({example['script']})"
    return f"{place}: {example['text']}"
