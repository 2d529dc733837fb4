"""Start, delimiter and extract (GPT, 2018): tokens around the texts of a task, for decoders whose
vocabulary has none. They are new entries with rows of their own that learn with the rest."""

from __future__ import annotations

import dataclasses

import tokenizers
from tokenizers import processors

from tianci.checkpoint import Checkpoint
from tianci.goals.tasks.base import Task
from tianci.models import family
from tianci.text.tokenizer import Tokenizer
from tianci.train.vocabulary import fit_vocabulary

START, DELIMITER, EXTRACT = TOKENS = ("<|start|>", "<|delimiter|>", "<|extract|>")


def lacks_marks(tokenizer: Tokenizer) -> bool:
    """Whether a pair would be read as one text: no token between its parts, or none behind."""
    whole, _ = tokenizer.wrap([-1], [-2])
    return whole.index(-2) == whole.index(-1) + 1 or whole[-1] == -2


def with_task_tokens(tokenizer: Tokenizer) -> Tokenizer:
    """The same vocabulary and three more: start a extract, start a delimiter b extract."""
    engine = tokenizers.Tokenizer.from_str(tokenizer.engine.to_str())
    engine.add_special_tokens(list(TOKENS))
    engine.post_processor = processors.TemplateProcessing(
        single=f"{START}:0 $A:0 {EXTRACT}:0",
        pair=f"{START}:0 $A:0 {DELIMITER}:0 $B:0 {EXTRACT}:0",
        special_tokens=[(name, engine.token_to_id(name)) for name in TOKENS],
    )
    # the general class obeys the template; that of GPT-2 may put one of its own in its place
    config = {**tokenizer.config, "tokenizer_class": "PreTrainedTokenizerFast"}
    return Tokenizer(engine, tokenizer.kind, config)


def give_task_tokens(model: Checkpoint, task: Task) -> bool:
    """Adds them where a decoder needs them; whether it did."""
    tokenizer, config = model.tokenizer, model.model.config
    decoder = "causal" in family(model.family).HEADS
    if not decoder or not task.marked or tokenizer is None or not lacks_marks(tokenizer):
        return False
    extended = with_task_tokens(tokenizer)
    fit_vocabulary(model, extended)
    # transformers looks for the last token that is no padding: the first one never is the last
    pad = extended.id(START) if config.pad is None else config.pad
    model.model.config = dataclasses.replace(
        model.model.config, begin=config.begin, end=config.end, pad=pad
    )
    return True


def has_task_tokens(model: Checkpoint) -> bool:
    """Whether the vocabulary is larger than that of the public model."""
    return model.tokenizer is not None and model.tokenizer.id(EXTRACT) is not None
