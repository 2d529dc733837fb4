"""A fine-tuning run: check the data, try rates and seeds, choose on dev, measure, report."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from tianci import __version__, adapters, checkpoint
from tianci.checkpoint import Checkpoint
from tianci.data.rows import Row, read_rows
from tianci.errors import Stopped, UserError
from tianci.evaluate.check.finding import Finding, stops
from tianci.evaluate.tasks import answer, reading_limit
from tianci.files import read_json, write_json
from tianci.find import check_told
from tianci.goals.tasks import make_task
from tianci.goals.tasks.base import Task
from tianci.metrics.interval import bootstrap_weighted
from tianci.settings import as_table, build, convert
from tianci.text.tokenizer import Tokenizer
from tianci.train import journal, parallel, probe
from tianci.train import record as run_record
from tianci.train.memory import keep_few_kernels, keep_freed_memory
from tianci.train.place import publish
from tianci.tune.choose import Chosen, choose_trial
from tianci.tune.settings import Finetune
from tianci.tune.start import load_base
from tianci.tune.task_tokens import has_task_tokens
from tianci.tune.work import Interrupted, Work

HELD_BACK = 0.1  # of the training rows, when there is no dev file
DRAWS = 1000


def finetune(
    task: str,
    settings: Finetune,
    task_settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    quiet: bool = False,
    resume: str | None = None,
) -> dict[str, Any]:
    """Trains as the settings say; returns the summary that `--json` prints."""
    world = parallel.join()
    if resume:
        task, settings, task_settings, seed = _recorded(Path(resume))
    if not settings.model or not settings.train or not (settings.out or resume):
        raise UserError("give --model, --train and --out (or --resume with a stopped run)")
    out = Path(resume or settings.out)
    asked = _asked(task, settings, task_settings or {}, seed)
    with ExitStack() as held:  # nobody else writes there until the end
        goes_on = parallel.of_first(lambda: run_record.take(out, asked, bool(resume), held), world)
        if goes_on and not resume:
            _recorded(out)  # is it finished?
            if world.first and not quiet:
                print(f"{out} holds this run, unfinished: going on with it", file=sys.stderr)
        with parallel.together(world, f"tianci finetune --resume {out}"):
            return _run(task, settings, task_settings or {}, seed, quiet, out, asked)


def _run(
    task: str,
    settings: Finetune,
    task_settings: Mapping[str, Any],
    seed: int,
    quiet: bool,
    out: Path,
    asked: Mapping[str, Any],
) -> dict[str, Any]:
    """From the rows to the report, or what is left of it."""
    made = make_task(task, task_settings)
    rows = split_rows(made, settings, seed)
    tokenizer = Tokenizer.load(settings.tokenizer) if settings.tokenizer else None
    base = load_base(settings.model, tokenizer)
    made = made.suit(base)
    limit = reading_limit(base, made, settings.length)
    findings = _checked(made, rows, base, limit, settings, quiet)
    # labels that only dev or test have can never be predicted, but count as errors
    made = made.learn([row for found in rows.values() for row in found])
    settings = _with_precision(settings, out, base.model.config.width)
    work = _work(made, settings, rows, limit, tokenizer, quiet)
    fresh = work.world.first and not (out / "run.json").exists()
    if fresh:
        out.mkdir(parents=True, exist_ok=True)
        decided = {"settings": {**asked["settings"], "precision": settings.precision}}
        write_json(out / "run.json", {"tianci": __version__, **asked, **decided, "asked": asked})
    try:
        chosen = choose_trial(work, seed, out / "trials")
        compared = _compare(work, chosen, seed, out) if settings.compare else None
    except Interrupted as stop:
        raise Stopped(
            stop.number, f"stopped and saved; go on with: tianci finetune --resume {out}"
        ) from None
    except UserError:
        if fresh:
            _take_back(out)
        raise
    if not work.world.first:
        return {}
    return _finish(work, chosen, rows, out, findings, compared)


def _take_back(out: Path) -> None:
    """Removes what a refused run has written, or the corrected command would be refused too."""
    trials = out / "trials"
    if any(trials.glob("*/best")) or any(trials.glob("*/checkpoints")):
        return  # something was learned: that is for people to decide
    shutil.rmtree(trials, ignore_errors=True)
    (out / "run.json").unlink(missing_ok=True)
    if not any(out.iterdir()):
        out.rmdir()


def _asked(
    task: str, settings: Finetune, task_settings: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """What the command said, as JSON keeps it."""
    table = {
        "task": task,
        "seed": seed,
        "settings": _absolute(settings),
        "task_settings": dict(task_settings),
    }
    kept: dict[str, Any] = json.loads(json.dumps(table))
    return kept


def _recorded(out: Path) -> tuple[str, Finetune, dict[str, Any], int]:
    if not (out / "run.json").exists():
        raise UserError(f"{out} holds no run that could go on (there is no run.json)")
    if (out / "scores.json").exists():
        raise UserError(f"{out} is finished")
    told = read_json(out / "run.json")
    if "task" not in told:
        raise UserError(f"{out} is not a fine-tuning run; try tianci pretrain --resume {out}")
    kept = convert(out / "run.json", told, _Record)
    check_told("tianci.goals.tasks", kept.task, "the task")
    settings = build(Finetune, kept.settings, "finetune")
    return kept.task, settings, kept.task_settings, kept.seed


class _Record(msgspec.Struct):
    """What run.json must hold for a run to go on."""

    task: str
    settings: dict[str, Any]
    seed: int
    task_settings: dict[str, Any]


def _absolute(settings: Finetune) -> dict[str, Any]:
    """The settings with paths that still hold when the run is resumed from elsewhere."""
    table = as_table(settings)
    for name in ("model", "tokenizer", "train", "dev", "test", "out"):
        # a model may be the name of a preset; the directory to write need not be there yet
        if table[name] and (name == "out" or Path(table[name]).exists()):
            table[name] = str(Path(table[name]).resolve())
    return table


def split_rows(task: Task, settings: Finetune, seed: int) -> dict[str, list[Row]]:
    """The rows of each split; without a dev file a tenth of the training rows is held back."""
    splits = {"train": settings.train, "dev": settings.dev, "test": settings.test}
    rows = {
        name: read_rows(path, task.columns(), settings.columns)
        for name, path in splits.items()
        if path
    }
    for name, found in rows.items():
        if not found:
            raise UserError(f"{splits[name]} has no rows")
    if "dev" not in rows:
        train = rows["train"]
        if len(train) < 2:
            raise UserError(f"{settings.train} has too few rows to hold some back; give --dev")
        held = set(_held_back(train, seed))
        rows["dev"] = [row for n, row in enumerate(train) if n in held]
        rows["train"] = [row for n, row in enumerate(train) if n not in held]
    if 0 < settings.rows < len(rows["train"]):
        drawn = np.random.default_rng(13).permutation(len(rows["train"]))[: settings.rows]
        rows["train"] = [rows["train"][i] for i in sorted(drawn.tolist())]
    return rows


def _held_back(rows: Sequence[Row], seed: int) -> list[int]:
    """The numbers of some rows, drawn at random, of each label its share.

    A plain draw from few rows, or with a rare label, often has one class only: no dev at all.
    """
    order = np.random.default_rng([seed, 11]).permutation(len(rows)).tolist()
    order.sort(key=lambda n: str(rows[n].values.get("label", "")))  # keeps the order inside a label
    count = max(1, round(len(rows) * HELD_BACK))
    step = len(rows) / count
    return [order[int((n + 0.5) * step)] for n in range(count)]


def _checked(
    task: Task,
    rows: Mapping[str, Sequence[Row]],
    base: Checkpoint,
    limit: int,
    settings: Finetune,
    quiet: bool,
) -> list[dict[str, Any]]:
    """What `tianci check` says; findings that make results meaningless stop the run."""
    from tianci.evaluate.check import check, summarise

    findings = check(dict(rows), task, tokenizer=base.tokenizer, limit=limit)
    refuse_faults(findings, settings.force)
    groups = summarise(findings)
    for group in groups:  # as the report shows them
        shown = [f"{place['file']}, line {place['line']}" for place in group["examples"]]
        group["places"] = shown
    if not quiet:
        for group in groups:
            print(
                f"! {group['split']}: {group['fault']}, {group['count']:,} rows: {group['advice']}",
                file=sys.stderr,
            )
    return groups


def refuse_faults(findings: Sequence[Finding], force: bool) -> None:
    """Stops at faults that make results meaningless, unless told to go on."""
    fatal = stops(findings)
    if fatal and not force:
        raise UserError(
            f"{fatal[0]}; {fatal[0].advice} (--force goes on anyway; tianci check shows all "
            "findings)"
        )


def _with_precision(settings: Finetune, out: Path, width: int) -> Finetune:
    """Decided once, by the first process, and recorded: a run that goes on must not find another
    answer."""
    world = parallel.join()

    def decide() -> Literal["float32", "bf16"]:
        wanted = settings.precision
        if (out / "run.json").exists():
            wanted = _recorded(out)[1].precision
        return probe.precision(wanted, world.device, width)

    return dataclasses.replace(settings, precision=parallel.of_first(decide, world))


def _work(
    task: Task,
    settings: Finetune,
    rows: dict[str, list[Row]],
    limit: int,
    tokenizer: Tokenizer | None,
    quiet: bool,
) -> Work:
    keep_freed_memory()
    keep_few_kernels()
    bf16 = settings.precision == "bf16"
    world = parallel.join()
    return Work(settings, task, rows["train"], rows["dev"], limit, quiet, bf16, world, tokenizer)


def _compare(work: Work, chosen: Chosen, seed: int, out: Path) -> dict[str, Any]:
    from tianci.tune.compare import compare

    return compare(work, chosen, seed, out / "compare")


# ---------------------------------------------------------------- the end


def measured(
    model: Checkpoint,
    task: Task,
    rows: list[Row],
    limit: int,
    decision: dict[str, Any],
    device: str,
) -> dict[str, Any]:
    """Scores with intervals, and details, of a model on rows."""
    answers = answer(model, task, rows, limit, device)
    score = task.scorer(rows, answers, decision)
    intervals = bootstrap_weighted(score, len(rows), DRAWS)
    return {
        "scores": task.score(rows, answers, decision),
        "intervals": {name: list(found) for name, found in intervals.items()},
        "details": task.details(rows, answers, decision),
    }


def _finish(
    work: Work,
    chosen: Chosen,
    rows: Mapping[str, list[Row]],
    out: Path,
    findings: list[dict[str, Any]],
    compared: dict[str, Any] | None,
) -> dict[str, Any]:
    """Measures the chosen model, writes it with its scores and its report."""
    from tianci.tune.report import write_report

    best, settings, task = chosen.best, work.settings, work.task
    model = checkpoint.read(chosen.folder / "best").to(work.world.device)
    dev = measured(model, task, rows["dev"], work.limit, best.decision, work.world.device)
    test = None
    if "test" in rows:
        test = measured(model, task, rows["test"], work.limit, best.decision, work.world.device)
    model.about["scores"] = {"dev": dev["scores"], **({"test": test["scores"]} if test else {})}
    _put_at_top(model, chosen.folder, out, settings)
    record = {
        "task": task.name,
        "metric": work.metric,
        "labels": list(task.labels),
        "model": settings.model,
        "out": str(out),
        "settings": as_table(settings),
        "rows": {name: len(found) for name, found in rows.items()},
        "files": {"train": settings.train, "dev": settings.dev, "test": settings.test},
        "dev": dev,
        "test": test,
        "decision": best.decision,
        "chosen": {"lr": best.lr, "seed": best.seed},
        "trials": [
            {**dataclasses.asdict(result), "log": _thin_log(folder)}
            for folder, result in chosen.trials
        ],
        "spread": chosen.spread,
        "compare": compared,
        "check": findings,
        "parameters": best.parameters,
        "learned": best.learned,
        "seconds": sum(result.seconds for _, result in chosen.trials),
        "tokens_per_second": best.tokens / max(1e-9, best.seconds),
        "notes": chosen.notes,
        "summary": _sentence(work, dev, test),
    }
    record = plain(record)
    write_report(out, record)
    write_json(out / "scores.json", record)  # the last thing: then the run is finished
    for folder, _ in chosen.trials:  # what is left of a finished trial: its log and its result
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        shutil.rmtree(folder / "best", ignore_errors=True)
    return _summary(record)


def _put_at_top(model: Checkpoint, folder: Path, out: Path, settings: Finetune) -> None:
    """The chosen model at the top of the run; of adapters only what was learned."""
    best = folder / "best"
    whole = has_task_tokens(model)  # its vocabulary is not that of the base
    if "adapters" in settings.strategies and Path(settings.model).exists() and not whole:
        from tianci.tune import strategy

        strategy.choose(model, settings)
        adapters.write(best, model, settings.model, home=out)
    else:
        checkpoint.write(best, model)
    publish(best, out)


def plain(value: Any) -> Any:
    """The same with None for numbers that JSON does not know."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _thin_log(folder: Path, points: int = 200) -> list[dict[str, Any]]:
    steps = [e for e in journal.read(folder / "log.jsonl") if e["event"] == "step"]
    names = ("step", "loss", "lr", "tokens_per_second", "seconds")
    kept = steps[:: max(1, len(steps) // points)]
    return [{name: entry[name] for name in names} for entry in kept]


def _sentence(work: Work, dev: dict[str, Any], test: dict[str, Any] | None) -> str:
    """The main figure in one sentence."""
    parts = []
    for name, found in (("dev", dev), ("test", test)):
        if found and work.metric in found["scores"]:
            low, high = found["intervals"].get(work.metric, (float("nan"),) * 2)
            value = found["scores"][work.metric]
            parts.append(
                f"{name} {work.metric} {value:.4f} (95 % of resamples {low:.4f} to {high:.4f})"
            )
    return ", ".join(parts)


def _summary(record: dict[str, Any]) -> dict[str, Any]:
    """What `--json` prints: the record without its long lists."""
    short = {k: v for k, v in record.items() if k not in ("dev", "test", "trials", "settings")}
    for name in ("dev", "test"):
        if record[name]:
            short[name] = record[name]["scores"]
            short[f"{name}_intervals"] = record[name]["intervals"]
    short["threshold"] = record["decision"].get("threshold")
    short["trials"] = [
        {k: t[k] for k in ("lr", "seed", "score", "epochs", "seconds", "trouble")}
        for t in record["trials"]
    ]
    return short
