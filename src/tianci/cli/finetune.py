"""tianci finetune"""

from __future__ import annotations

from typing import Any

import click

from tianci.cli.command import Run, command
from tianci.tune.settings import Finetune

# each task reads the settings of its own section, where its names are known
TASKS = ("classify", "pair", "regress", "tag", "answer", "choose", "similar", "generate")
SECTIONS: dict[str, type] = {"finetune": Finetune, **dict.fromkeys(TASKS, dict)}


@command(
    "finetune",
    example="tianci finetune classify --model runs/mini --train train.jsonl --dev dev.jsonl "
    "--out runs/hotel\n"
    "tianci finetune tag --model runs/mini --train train.conll --out runs/names --crf\n"
    "tianci finetune pair --model bert --train a.tsv --column text=q1 --column pair=q2 "
    "--lr auto --seeds 3 --compare --out runs/pairs\n"
    "tianci finetune --resume runs/hotel",
    settings=SECTIONS,
)
@click.argument("task", required=False)
@click.option("--resume", metavar="DIR", help="go on with a run that was stopped")
@click.option("--recipe", metavar="FILE", help="settings from a TOML recipe ([finetune], [TASK])")
def finetune(run: Run, task: str | None, resume: str | None, recipe: str | None) -> None:
    """Fine-tunes a model for a TASK: classify, pair, regress, tag, answer, choose, similar or
    generate.

    Files are JSON lines, TSV or CSV with a header, CoNLL, or SQuAD JSON. The data are checked
    first; dev rows choose epoch, rate and threshold; test rows only measure. Task settings are
    given as --set TASK.name=value.
    """
    from tianci.errors import UserError
    from tianci.goals.tasks import task_kind
    from tianci.settings import read_toml
    from tianci.tune.run import finetune as train

    sections = run.settings
    if recipe:
        named = [name for name in TASKS if name in read_toml(recipe)]
        task = task or (named[0] if len(named) == 1 else None)
    if task is None and not resume:
        raise UserError(f"name a task: {', '.join(TASKS)}")
    if task is not None:
        task_kind(task)  # a wrong name is told first
    summary = train(
        task or "", sections["finetune"], sections.get(task or "", {}), run.seed, run.quiet, resume
    )
    if summary:
        run.result(summary, lambda: _text(summary))


def _text(summary: dict[str, Any]) -> str:
    lines = []
    if len(summary["trials"]) > 1:
        lines.append(f"{'rate':>10}{'seed':>7}{'dev ' + summary['metric']:>18}{'epochs':>9}")
        for t in summary["trials"]:
            lines.append(f"{t['lr']:>10.1e}{t['seed']:>7}{t['score']:>18.4f}{t['epochs']:>9.1f}")
        if summary["spread"]:
            s = summary["spread"]
            lines.append(
                f"chosen rate over {s['count']} seeds: mean {s['mean']:.4f}, standard deviation "
                f"{s['sd']:.4f}, from {s['low']:.4f} to {s['high']:.4f}"
            )
    lines.append(
        f"{'':22}{'dev':>9}{'95 % interval':>22}" + (f"{'test':>12}" if "test" in summary else "")
    )
    for name, value in summary["dev"].items():
        low, high = summary["dev_intervals"].get(name, (float("nan"),) * 2)
        line = f"  {name:<20}{value:>9.4f}{f'{low:.4f} to {high:.4f}':>22}"
        if name in summary.get("test", {}):
            low, high = summary["test_intervals"].get(name, (float("nan"),) * 2)
            line += f"{summary['test'][name]:>12.4f}{f'{low:.4f} to {high:.4f}':>22}"
        lines.append(line)
    if summary.get("threshold") is not None:
        lines.append(f"threshold from dev: {summary['threshold']:.2f}")
    for finding in summary["check"]:
        lines.append(f"data: {finding['fault']}: {finding['count']:,} ({finding['severity']})")
    lines += [f"! {note}" for note in summary["notes"]]
    if summary["compare"]:
        lines.append(_compared(summary["compare"]))
    lines.append(
        f"{summary['learned']:,} of {summary['parameters']:,} parameters learned, "
        f"{summary['tokens_per_second']:,.0f} tokens/s, {summary['seconds'] / 60:.1f} minutes"
    )
    lines.append(f"the model and report.html are in {summary['out']}; try: tianci predict "
                 f"{summary['out']} FILE")  # fmt: skip
    return "\n".join(lines)


def _compared(found: dict[str, Any]) -> str:
    systems = list(dict.fromkeys(row["system"] for row in found["rows"]))
    lines = [f"{'labels':>10}" + "".join(f"{name:>16}" for name in systems)]
    for count in dict.fromkeys(row["labels"] for row in found["rows"]):
        cells = {r["system"]: r["score"] for r in found["rows"] if r["labels"] == count}
        lines.append(
            f"{count:>10,}" + "".join(f"{cells[s]:>16.4f}" if s in cells else f"{'-':>16}"
                                      for s in systems)
        )  # fmt: skip
    return "\n".join([*lines, found["sentence"]])
