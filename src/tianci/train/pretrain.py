"""Pre-training from a corpus: fresh, from a checkpoint, or going on after a stop."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from tianci import checkpoint
from tianci.data.corpus import Corpus
from tianci.errors import UserError
from tianci.goals.objectives import objective_names, parse
from tianci.goals.objectives.segments import Pairing
from tianci.train import first_model, parallel, record, state
from tianci.train.memory import keep_few_kernels, keep_freed_memory
from tianci.train.presets import Pace, pace
from tianci.train.session import Session
from tianci.train.settings import Pretrain, Train

SLOW_CHECK = 2 << 30  # bytes of tokens whose check takes long enough to be mentioned


def pretrain(
    sections: Mapping[str, Any], seed: int = 0, quiet: bool = False, resume: str | None = None
) -> dict[str, Any]:
    """Trains as the settings say; returns the summary that `--json` prints."""
    world = parallel.join()
    if resume:
        given, said = sections, seed
        sections, seed = record.recorded(Path(resume))
        if given:
            sections = record.follow(Path(resume), given, said, sections)
    wanted: Pretrain = sections["pretrain"]
    if not wanted.corpus or not (resume or wanted.out):
        raise UserError("give --corpus and --out (or --resume with the directory of a stopped run)")
    sections["train"].check_one_limit()
    run = Path(resume or wanted.out)
    wish = record.asked(sections, seed)
    with ExitStack() as held:  # nobody else writes there until the end
        goes_on = parallel.of_first(lambda: record.take(run, wish, bool(resume), held), world)
        if goes_on and not resume:
            sections, seed = record.recorded(run)
            if world.first and not quiet:
                print(f"{run} holds this run, unfinished: going on with it", file=sys.stderr)
        with parallel.together(world, f"tianci pretrain --resume {run}"):
            return _session(run, sections, seed, quiet, world, goes_on, wish).go()


def _session(
    run: Path,
    sections: Mapping[str, Any],
    seed: int,
    quiet: bool,
    world: parallel.World,
    goes_on: bool,
    wish: Mapping[str, Any],
) -> Session:
    """Everything read and checked, from the beginning or from the last checkpoint."""
    wanted: Pretrain = sections["pretrain"]
    settings: Train = sections["train"]
    corpus = Corpus(wanted.corpus)
    if goes_on:
        record.check_resumable(run, Path(wanted.corpus))
    _read_once(corpus, world, quiet)
    tokenizer = corpus.tokenizer()
    module = first_model.family_of(wanted)
    wanted = dataclasses.replace(wanted, objective=wanted.objective or module.OBJECTIVE)
    sections = {**sections, "pretrain": wanted}
    told = {name: sections.get(name, {}) for name in objective_names()}
    goal = parse(wanted.objective, told, module.HEADS)
    torch.manual_seed(seed)
    folder = state.last_checkpoint(run, world) if goes_on else None
    model = (
        checkpoint.read(folder)
        if folder
        else first_model.start(wanted, sections.get("model", {}), goal, corpus, tokenizer)
    )
    usual = pace(model.model.config.width, model.model.config.layers)
    first_model.put(
        model, world.device, usual.dropout if settings.dropout is None else settings.dropout
    )
    positions = model.model.config.positions
    for name in ("length", "last_length"):
        if (length := getattr(settings, name)) > positions:
            raise UserError(f"train.{name} is {length}, but the model reads {positions}")
    if goal.find(Pairing) and model.model.config.segments < 2:
        raise UserError(f"the model knows one segment, but {goal.name} needs two; use masked alone")
    keep_freed_memory()
    keep_few_kernels()
    settings = _filled(settings, usual)
    return Session(
        run,
        wanted,
        settings,
        seed,
        quiet,
        world,
        corpus,
        tokenizer,
        goal,
        model,
        usual,
        folder,
        sections,
        wish,
    )


def _read_once(corpus: Corpus, world: parallel.World, quiet: bool) -> None:
    """Makes sure that the store is as it was written; one process is enough."""
    if not world.first:
        return
    if corpus.bytes > SLOW_CHECK and not quiet:
        print(f"checking {corpus.bytes / 2**30:.1f} GiB of tokens", file=sys.stderr)
    corpus.check()


def _filled(settings: Train, usual: Pace) -> Train:
    """What the user left open: the preset's batch, and one pass over the corpus."""
    epochs = settings.epochs if settings.limits else 1.0
    return dataclasses.replace(
        settings,
        epochs=epochs,
        batch_tokens=settings.batch_tokens or usual.batch_tokens,
        micro_tokens=settings.micro_tokens or usual.micro_tokens,
    )
