"""The model a pre-training run begins with."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from tianci import checkpoint
from tianci.checkpoint import Checkpoint
from tianci.data.corpus import Corpus
from tianci.errors import UserError
from tianci.files import read_json
from tianci.goals.base import Joint
from tianci.models import family, preset
from tianci.settings import build
from tianci.text.tokenizer import Tokenizer
from tianci.train.first_guess import know_frequencies
from tianci.train.settings import Pretrain
from tianci.train.vocabulary import fit_vocabulary, vocabulary_sizes


def family_of(wanted: Pretrain) -> ModuleType:
    """The module of the model's family."""
    if wanted.start_from:
        place = Path(wanted.start_from) / "config.json"
        if not place.exists():
            return family(checkpoint.read(wanted.start_from).family)  # an adapter; or says it all
        kind, _, _ = checkpoint.config_from_public(place, read_json(place))
    else:
        kind, _ = preset(wanted.preset)
    return family(kind)


def start(
    wanted: Pretrain, sizes: Mapping[str, Any], goal: Joint, corpus: Corpus, tokenizer: Tokenizer
) -> Checkpoint:
    """A fresh model, or the one to go on from, with the heads the goal needs."""
    if wanted.start_from:
        if sizes:
            raise UserError(
                f"model.{next(iter(sizes))} is a size of a new model, but {wanted.start_from} has "
                "its sizes; leave it out, or leave out --from"
            )
        model = checkpoint.read(wanted.start_from)
        _agree(wanted, model)
        fit_vocabulary(model, tokenizer)
        for name in goal.heads:
            if name not in model.heads:
                _add_head(model, name)
                know_frequencies([model.heads[name]], corpus.split("train"))
        return model
    kind, config = preset(wanted.preset)
    table = {**dataclasses.asdict(config), **vocabulary_sizes(config, tokenizer), **sizes}
    config = build(type(config), table, "model")
    if config.vocabulary < len(tokenizer):
        raise UserError(
            f"model.vocabulary is {config.vocabulary:,}, but the corpus was prepared with "
            f"{len(tokenizer):,} tokens; leave it out"
        )
    model = checkpoint.create(kind, config, goal.heads)
    know_frequencies(model.heads.values(), corpus.split("train"))
    model.tokenizer = tokenizer
    return model


def _agree(wanted: Pretrain, model: Checkpoint) -> None:
    """Refuses a preset of other sizes than the model to go on from."""
    if wanted.preset == Pretrain.preset:  # who says the usual one is not heard
        return
    kind, config = preset(wanted.preset)
    asked = {"family": kind, "width": config.width, "layers": config.layers}
    found = model.model.config
    has = {"family": model.family, "width": found.width, "layers": found.layers}
    if asked != has:
        raise UserError(
            f"--preset {wanted.preset} is a {kind} with {config.layers} layers, {config.width} "
            f"wide, but {wanted.start_from} is a {model.family} with {found.layers}, "
            f"{found.width} wide; leave out one of them"
        )


def _add_head(model: Checkpoint, name: str) -> None:
    """Gives a model one more head; a pooler goes over to it, because files have room for one."""
    head = checkpoint.fresh_head(model.family, model.model.config, name)
    fresh, old = checkpoint.pooler_of({name: head}), checkpoint.pooler_of(model.heads)
    if fresh is not None and old is not None:
        fresh.load_state_dict(old.state_dict())
        left = {n: h for n, h in model.heads.items() if checkpoint.pooler_of({n: h}) is None}
        model.heads = left
    model.heads[name] = head


def put(model: Checkpoint, device: str, dropout: float) -> None:
    """To the device, with the dropout of this run (the configuration keeps its own, for
    fine-tuning)."""
    for part in (model.model, *model.heads.values()):
        part.to(device)
        for module in part.modules():
            if hasattr(module, "dropout"):
                setattr(module, "dropout", dropout)  # noqa: B010  (torch types it as a module)
