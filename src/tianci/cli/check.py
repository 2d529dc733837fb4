"""tianci check"""

from __future__ import annotations

import dataclasses

import click

from tianci.cli.command import Run, command
from tianci.cli.finetune import TASKS


@command(
    "check",
    example="tianci check train.jsonl dev.jsonl test.jsonl --task classify\n"
    "tianci check --train a.tsv --dev b.tsv --task pair --column text=q1 --column pair=q2 --json\n"
    "tianci check data/*.conll --task tag",
    settings=dict.fromkeys(TASKS, dict),
)
@click.argument("files", nargs=-1)
@click.option("--task", required=True, metavar="TASK", help=", ".join(TASKS))
@click.option("--train", multiple=True, metavar="FILE", help="rows to learn from; repeatable")
@click.option("--dev", multiple=True, metavar="FILE", help="rows that choose; repeatable")
@click.option("--test", multiple=True, metavar="FILE", help="rows that measure; repeatable")
@click.option("--column", multiple=True, help="which column is which, for example text=review")
@click.option("--model", default="", help="also find texts that are longer than this model reads")
@click.option("--length", type=click.IntRange(0), default=0, help="or than so many of its tokens")
@click.option(
    "--examples", type=click.IntRange(1), default=3, show_default=True, help="places to show"
)
def check(
    run: Run,
    files: tuple[str, ...],
    task: str,
    train: tuple[str, ...],
    dev: tuple[str, ...],
    test: tuple[str, ...],
    column: tuple[str, ...],
    model: str,
    length: int,
    examples: int,
) -> None:
    """Looks for faults in labelled FILES: broken rows, labels that contradict each other, copies
    between train, dev and test, spans and tags that cannot be.

    FILES are train, dev or test by their names, else in this order; --train, --dev and --test say
    it outright. Faults marked "stops" make results meaningless: tianci finetune refuses them.
    """
    from tianci.errors import UserError
    from tianci.evaluate.check import check_files
    from tianci.evaluate.check.show import table
    from tianci.tune.settings import Finetune

    if not (files or train or dev or test):
        raise UserError("name at least one file to check")
    if length and not model:
        raise UserError("--length counts the tokens of a model; name it with --model")
    report = check_files(
        files,
        task=task,
        train=train,
        dev=dev,
        test=test,
        columns=Finetune(column=list(column)).columns,
        settings=run.settings.get(task),
        model=model,
        length=length,
    )
    findings = [dataclasses.asdict(finding) for finding in report.findings]
    run.result(findings, lambda: table(report, examples))
