"""A model that writes token by token, whatever its family: what was read is read once.

Who writes is told by the head: `masked` (an encoder whose source sees itself as a whole), `causal`
(a decoder), `generation` (an encoder-decoder, whose batch brings the begin of each target).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from tianci.batch import Batch
from tianci.checkpoint import Checkpoint
from tianci.errors import UserError
from tianci.goals.decoding import Decoding, Live, Next, log_probabilities
from tianci.goals.laying import begin_and_end
from tianci.models import family
from tianci.models.base import Model
from tianci.nn.past import Following, Past, Recording
from tianci.text.tokenizer import Tokenizer

By = Literal["", "masked", "causal", "generation"]
WRITERS: tuple[By, ...] = ("generation", "causal", "masked")


def writer_of(model: Checkpoint) -> By:
    """The head by which a family writes."""
    known = family(model.family).HEADS
    found = next((name for name in WRITERS if name in known), None)
    if found is None:
        raise UserError(f"{model.family} has no language-model head, so it cannot write texts")
    if found == "generation" and not model.model.config.decoder_layers:
        raise UserError("this T5 is an encoder alone (decoder_layers = 0), so it writes no texts")
    return found


@dataclass(frozen=True)
class Allowed:
    """Which tokens may be written."""

    end: int  # ends a text
    barred: tuple[int, ...]  # special tokens, which are no text
    known: int  # entries of the vocabulary: a table often has more rows

    @classmethod
    def by(cls, tokenizer: Tokenizer, end: int, free: Sequence[int] = ()) -> Allowed:
        """All tokens but the special ones; the end and those in `free` are allowed."""
        barred = tokenizer.special_ids - {end, *free}
        return cls(end, tuple(sorted(barred)), len(tokenizer))


def source_marks(tokenizer: Tokenizer) -> tuple[int, int]:
    """(begin of a target, end of a source and of a target) where there are two halves."""
    begin, end = begin_and_end(tokenizer)
    begin = tokenizer.pad if begin is None else begin  # what T5's own decoder begins with
    if begin is None or end is None:
        raise UserError(
            "the vocabulary has no token that ends a text (</s> or [SEP]), or none that begins one"
        )
    return begin, end


def next_scores(
    model: Model,
    head: nn.Module,
    batch: Batch,
    place: Sequence[int],
    allowed: Allowed,
    how: Decoding,
    segment: int = 0,
    before: Sequence[Sequence[int]] | None = None,
) -> Next:
    """The log-probabilities of the next token of each text.

    place[n] is the sequence of the batch that text n goes on with; before[n] is what the rules
    against repetition see besides what was written.
    """
    begun = batch if batch.decoder is None else batch.decoder
    past = Past(begun.layout.longest + how.longest)
    recorded = dataclasses.replace(begun, layout=Recording(begun.layout, past))
    first = model(
        recorded if batch.decoder is None else dataclasses.replace(batch, decoder=recorded)
    )
    device, table = batch.tokens.device, model.token_table()
    barred = torch.tensor(allowed.barred, dtype=torch.int64, device=device)

    def scores(live: Sequence[Live]) -> Tensor:
        if live[0].ids:
            past.choose([one.parent for one in live])
            written = torch.tensor([one.ids[-1] for one in live], device=device)
            segments = torch.full_like(written, segment)
            last = model(Batch(written, Following(past), segments)).last
        else:
            past.choose(place)
            last = first.last[begun.layout.last()[list(place)]]
        logits: Tensor = head(last, table).float()
        logits[:, barred] = -torch.inf
        logits[:, allowed.known :] = -torch.inf
        texts = [[*(before[one.row] if before else ()), *one.ids] for one in live]
        return log_probabilities(logits, texts, how)

    return scores
