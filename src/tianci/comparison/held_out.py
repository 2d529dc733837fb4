"""How well a model guesses held-out text, as far as models with other vocabularies can be compared.

A loss per token depends on what a token is. `bits_per_byte` spreads it over the bytes of the text:
loss per token x tokens of the corpus / its bytes, in bits. All models of a comparison have the
same text, so for decoders this compares exactly. A masked model sees both sides of what it
guesses, so its figure has no meaning beside a decoder's; and where pieces are longer, more is
hidden at once.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from tianci.checkpoint import read
from tianci.data.corpus import Corpus
from tianci.evaluate.objectives import evaluate_objectives
from tianci.evaluate.perplexity import evaluate_perplexity

TOKENS = 100_000


def measure_held_out(model: Path, corpus: Path, length: int) -> dict[str, Any]:
    """Loss, accuracy and bits per byte of a model on the held-out text of its corpus; nothing of
    a model that guesses no tokens.

    Masked models are asked alike, whatever they were trained with: single segments, 15 % hidden.
    """
    saved = read(model)
    length = min(length, int(saved.model.config.positions))
    if "causal" in saved.heads:
        found = evaluate_perplexity(model, corpus, tokens=TOKENS, length=length)
        guess = "causal"
    elif "masked" in saved.heads:
        found = evaluate_objectives(model, corpus, "masked", tokens=TOKENS, length=length)
        guess = "masked"
    else:
        return {}
    known = Corpus(corpus).info["statistics"]
    loss = float(found[f"{guess}_loss"])
    return {
        "guess": guess,
        "loss": loss,
        "accuracy": found.get(f"{guess}_accuracy"),
        "bits_per_byte": loss / math.log(2) * known["tokens"] / known["bytes"],
    }
