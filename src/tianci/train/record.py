"""run.json: what a run was asked for. By it a stopped run is known again and goes on."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from tianci import __version__
from tianci.claim import claim
from tianci.data.corpus import MANIFEST
from tianci.errors import UserError
from tianci.files import read_json, sweep, write_json
from tianci.find import check_told
from tianci.manifest import checksum, has_manifest
from tianci.settings import as_table, build, convert
from tianci.train import journal
from tianci.train.place import check_target
from tianci.train.settings import Pretrain, Train

RECORD = "run.json"
# What may be given anew with --resume: it decides about memory and files, not about what is learned
MAY_CHANGE = ("micro_tokens", "save_every", "log_every", "keep")


def tables(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as plain tables."""
    return {name: v if isinstance(v, dict) else as_table(v) for name, v in sections.items()}


def asked(sections: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """What the command said, before anything is filled in, as JSON keeps it; paths made whole."""
    found = tables(sections)
    for name in ("corpus", "out", "start_from"):
        if found["pretrain"][name]:
            found["pretrain"][name] = str(Path(found["pretrain"][name]).resolve())
    kept: dict[str, Any] = json.loads(json.dumps({"seed": seed, **found}))
    return {name: value for name, value in kept.items() if value != {}}


def take(run: Path, wish: Mapping[str, Any], resume: bool, held: ExitStack) -> bool:
    """Makes this process the only writer of a run; whether there is something to go on with.

    The same command as before goes on by itself; other wishes are refused.
    """
    held.enter_context(claim(run))
    sweep(run, below=True)
    if not resume and not (run / RECORD).exists():
        check_target(run)
        return False
    if not resume:
        record = read_json(run / RECORD)
        if other := difference(record.get("asked"), wish):
            raise UserError(
                f"{run} already holds a run; go on with --resume {run}, or give another --out "
                f"({other})"
            )
    return True


def difference(old: Any, new: Any, name: str = "settings") -> str | None:
    """The first setting that is not as it was."""
    if old == new:
        return None
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            if old.get(key) != new.get(key):
                inner = key if name == "settings" else f"{name}.{key}"
                return difference(old.get(key), new.get(key), inner)
    return f"{name} was {json.dumps(old)}, not {json.dumps(new)}" if old is not None else (
        f"it was started without {name} = {json.dumps(new)}"
    )  # fmt: skip


def write_record(
    run: Path, sections: Mapping[str, Any], settings: Train, seed: int, wish: Mapping[str, Any]
) -> None:
    """Notes what a run was asked for, and what was made of it."""
    filled = tables(sections)
    filled["train"] = as_table(settings)
    corpus = Path(filled["pretrain"]["corpus"]).resolve()
    filled["pretrain"]["corpus"] = str(corpus)
    record = {
        "tianci": __version__,
        "seed": seed,
        "corpus": checksum(corpus / MANIFEST),
        "settings": filled,
        "asked": wish,
    }
    run.mkdir(parents=True, exist_ok=True)
    write_json(run / RECORD, record)


def recorded(run: Path) -> tuple[dict[str, Any], int]:
    """The settings a stopped run was started with."""
    if not (run / RECORD).exists():
        raise UserError(f"{run} holds no run that could go on (there is no run.json)")
    told = read_json(run / RECORD)
    if "task" in told:
        raise UserError(f"{run} is a fine-tuning run; try tianci finetune --resume {run}")
    record = convert(run / RECORD, told, _Record)
    kinds: dict[str, Any] = {"pretrain": Pretrain, "train": Train}
    sections = {
        name: build(kinds[name], table, name) if name in kinds else table
        for name, table in record.settings.items()
    }
    wanted = sections.get("pretrain")
    if not isinstance(wanted, Pretrain) or "train" not in sections:
        raise UserError(f"{run / RECORD} does not say what was trained; start a new run")
    for name in filter(None, (piece.strip() for piece in wanted.objective.split("+"))):
        check_told("tianci.goals.objectives", name, "the objective")
    return sections, record.seed


def follow(
    run: Path, given: Mapping[str, Any], seed: int, sections: Mapping[str, Any]
) -> dict[str, Any]:
    """The settings of a stopped run with those that --resume came with; others are refused."""
    record = convert(run / RECORD, read_json(run / RECORD), _Record)
    was = record.asked
    now, usual = asked(given, seed), asked({"pretrain": Pretrain(), "train": Train()}, 0)
    if now.pop("seed") not in (0, record.seed):
        raise UserError(f"{run} was begun with --seed {record.seed}, not {seed}; leave it out")
    changed = {}
    for section, table in now.items():
        for name, value in table.items():
            before = was.get(section)
            old = before.get(name) if isinstance(before, dict) else None
            if value in (old, usual.get(section, {}).get(name)):
                continue  # as it was, or nothing was said
            if section != "train" or name not in MAY_CHANGE:
                raise UserError(
                    f"{run} was begun with other settings "
                    f"({difference(old, value, f'{section}.{name}')}); leave it out, or "
                    f"start a new run"
                )
            changed[name] = value
    return {**sections, "train": dataclasses.replace(sections["train"], **changed)}


class _Record(msgspec.Struct):
    """What run.json must hold for a run to go on."""

    settings: dict[str, dict[str, Any]]
    seed: int
    asked: dict[str, Any] = {}


def check_resumable(run: Path, corpus: Path) -> None:
    """A run goes on with the text it began with, and only if there is something left to do."""
    record = read_json(run / RECORD)
    if record.get("corpus") not in (None, checksum(corpus / MANIFEST)):
        raise UserError(
            f"{corpus} is not as it was when {run} began, so the run cannot go on to the same "
            f"result; "
            f"prepare it as it was, or start anew with --from {run}"
        )
    if ended(run):
        raise UserError(f"{run} is finished; to learn on from it: tianci pretrain --from {run}")


def ended(run: Path) -> dict[str, Any] | None:
    """The last entry of a run that came to its end; its manifest is the last thing put there."""
    if not (run / "model.safetensors").exists() or not (run / "log.jsonl").exists():
        return None
    if not has_manifest(run):
        return None  # killed while its files were put at the top
    found = [entry for entry in journal.read(run / "log.jsonl") if entry["event"] == "end"]
    return found[-1] if found else None
