"""How likely a decoder finds texts, from left to right: per token, per word and per byte.

A text that is longer than the context is read in windows. Each window begins `stride` tokens behind
the one before and judges what that one has not reached, so every token is judged once and has at
least length - stride tokens before it. The first window begins with the begin token, as in
training.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tianci.batch import Batch
from tianci.checkpoint import Checkpoint, read
from tianci.data.collate import by_budget
from tianci.data.corpus import Corpus
from tianci.data.store import SplitStore
from tianci.errors import UserError
from tianci.goals.laying import begin_and_end
from tianci.nn.vocabulary_loss import CHUNK
from tianci.text.readable import readable
from tianci.text.source import read_lines
from tianci.text.tokenizer import Tokenizer
from tianci.text.words import count_words

BATCH_TOKENS = 4096


class Window(NamedTuple):
    """What is read at once: ids[start:stop] of a row; judged from `first` on."""

    row: int
    start: int
    stop: int
    first: int


def windows(row: int, size: int, length: int, stride: int) -> Iterator[Window]:
    """The windows of a row of `size` tokens, the begin token among them."""
    stop = first = 1
    while first < size:
        stop = min(size, length if first == 1 else stop + stride)
        yield Window(row, max(0, stop - length), stop, first)
        first = stop


def begin_token(tokenizer: Tokenizer) -> int:
    """The token that stands before a text."""
    begin, _ = begin_and_end(tokenizer)
    if begin is None:
        raise UserError(
            "the vocabulary has no token that stands before a text ([CLS], <s> or <|endoftext|>), "
            "so the first token cannot be judged"
        )
    return begin


@torch.inference_mode()
def log_likelihoods(
    saved: Checkpoint, texts: Sequence[Sequence[int]], begin: int, length: int, stride: int
) -> list[list[float]]:
    """The log-probability of each token of each text, given those before it."""
    if not 1 <= stride < length:
        raise UserError(f"a stride of {stride} does not fit a context of {length}; use 1 to "
                        f"{length - 1}")  # fmt: skip
    model, head = saved.model.eval(), saved.heads["causal"].eval()
    rows = [[begin, *text] for text in texts]
    found = [[0.0] * len(text) for text in texts]
    every = [w for n, row in enumerate(rows) for w in windows(n, len(row), length, stride)]
    for numbers in by_budget([w.stop - w.start for w in every], BATCH_TOKENS):
        chosen = [every[n] for n in numbers]
        batch = Batch.of([rows[w.row][w.start : w.stop] for w in chosen]).to(model.device)
        starts = batch.layout.starts.tolist()
        at = [
            begin_at + place - w.start - 1  # the place before a token guesses it
            for begin_at, w in zip(starts, chosen, strict=False)
            for place in range(w.first, w.stop)
        ]
        places = torch.tensor(at, dtype=torch.int64, device=model.device)
        states, answers = model(batch).last[places], batch.tokens[places + 1]
        table = model.token_table()
        step = max(16, CHUNK // len(table))  # never all logits at once
        scores: list[float] = []
        for part, right in zip(torch.split(states, step), torch.split(answers, step), strict=True):
            logits = head(part, table).float()
            known = logits.gather(1, right[:, None]).squeeze(1)
            scores += (known - logits.logsumexp(-1)).tolist()
        judged = iter(scores)
        for w in chosen:
            found[w.row][w.first - 1 : w.stop - 1] = [next(judged) for _ in range(w.first, w.stop)]
    return found


def evaluate_perplexity(
    model: str | Path,
    path: str | Path,
    split: str = "held",
    tokens: int = 200_000,
    length: int = 128,
    stride: int | None = None,
    device: str = "cpu",
) -> dict[str, Any]:
    """Loss, perplexity per token and per word, and bits per byte, on a corpus or a file of text.

    Only the text is judged, not the end of it. Words are those of `split_words`. A corpus holds
    tokens: its words and bytes are those of the text that they spell, whole documents up to about
    so many tokens. A file is one text, and its bytes are its own.
    """
    saved = read(model).to(device)
    need_causal(saved, str(model))
    if length > saved.model.config.positions:
        raise UserError(f"a length of {length}, but {model} reads {saved.model.config.positions}")
    stride = stride or length // 2
    floors: dict[str, Any] = {}
    if Path(path).is_dir():
        corpus = Corpus(path)
        known = corpus.info.get("statistics", {})
        floors = {n: known[n] for n in ("unigram_entropy", "bigram_entropy") if n in known}
        from tianci.evaluate.objectives import shared_tokenizer  # imports all of training

        tokenizer = shared_tokenizer(model, saved, corpus)
        rows = _documents(corpus, split, tokens)
        texts = [readable(tokenizer.decode(row)) for row in rows]
    else:
        if saved.tokenizer is None:
            raise UserError(f"{model} has no tokenizer, so it cannot read {path}")
        tokenizer = saved.tokenizer
        texts = ["\n".join(line for _, line in read_lines(Path(path)))]
        rows = tokenizer.ids(texts, special=False)
    found = log_likelihoods(saved, rows, begin_token(tokenizer), length, stride)
    total = -math.fsum(score for row in found for score in row)
    count = sum(len(row) for row in found)
    if not count:
        raise UserError(f"{path} has no text to measure on")
    words = sum(count_words(text) for text in texts)
    size = sum(len(text.encode()) for text in texts)
    return {
        "objective": "causal",
        "causal_loss": total / count,
        "causal_perplexity": math.exp(min(total / count, 700.0)),
        "word_perplexity": math.exp(min(total / max(1, words), 700.0)),
        "bits_per_byte": total / math.log(2) / max(1, size),
        "tokens": count,
        "words": words,
        "bytes": size,
        "texts": len(rows),
        "length": length,
        "stride": stride,
        **floors,
    }


def need_causal(saved: Checkpoint, name: str) -> None:
    """One sentence for a model that cannot be asked from left to right."""
    if "causal" not in saved.heads:
        other = " (or --objective masked)" if "masked" in saved.heads else ""
        raise UserError(
            f"{name} is a {saved.family} without a causal head, so it has no perplexity from left "
            f"to right; tianci score gives its pseudo-log-likelihood{other}"
        )


def _documents(corpus: Corpus, split: str, tokens: int) -> list[list[int]]:
    store = SplitStore(corpus.split(split))
    rows: list[list[int]] = []
    for document in range(store.count()):
        borders = store.sentences(document)
        rows.append(store.read(int(borders[0]), int(borders[-1])).tolist())
        tokens -= len(rows[-1])
        if tokens <= 0:
            break
    if not rows:
        raise UserError(f"{corpus.directory} has no documents in its split {split}; use another")
    return rows
